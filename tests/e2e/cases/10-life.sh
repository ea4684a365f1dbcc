# A cluster's life on real Ray: made, hurt in every way, scaled, deleted. Each change happens once, with a reason.
own_namespace e2e-life

began=$(now) since=$SECONDS
sed 's/name: demo$/name: life/' "$REPOSITORY/examples/raycluster.yaml" | kubectl -n "$NS" apply -f - >/dev/null
ready life
wait_for 60 "Ray lists three nodes" ray_lists life 3
say "Ready; Ray lists three nodes"
made=$(requests "$OPERATOR_USER" "$began" | awk -v ns="$NS" '$4 == ns' | sort | uniq -c | sort -rn)
say "requests to make it:"
printf '%s\n' "$made" | sed 's/^/      /'
creates=$(awk '$2 == "create" && $3 != "events" { n += $1 } END { print n + 0 }' <<<"$made")
statuses=$(awk '$2 == "patch" && $4 == "status" { n += $1 } END { print n + 0 }' <<<"$made")
[ "$creates" = 4 ] || fail "one Service and three pods want 4 creates, not $creates"
# Counts alone are written again after half a minute, then ever more rarely: a slow machine sees one or two of those.
[ "$statuses" -le $((4 + (SECONDS - since) / 60)) ] || fail "$statuses status writes in $((SECONDS - since)) s"
[ "$(events life | wc -l)" -le 2 ] || fail "more than two events: $(events life)"
! has ' 409$' <<<"$made" || fail "conflicts: $made"

before=$(living life)
victim=$(living life worker | head -n 1 | cut -d' ' -f1)
began=$(now) since=$SECONDS
kubectl -n "$NS" delete pod "$victim" --wait=false >/dev/null
wait_for 60 "Ready turns False when a worker is lost" condition_is life Ready status False
ready life
wait_for 60 "two workers live" count_living life worker 2
after=$(living life)
[ "$(comm -12 <(echo "$before") <(echo "$after") | wc -l)" = 2 ] || fail "more than the lost worker changed: $before / $after"
[ "$(count_events life CreatedWorkerPod)" = 2 ] || fail "one event for the new worker: $(events life)"
lost=$(requests "$OPERATOR_USER" "$began" | awk -v ns="$NS" '$4 == ns && $1 != "watch"' | sort | uniq -c)
say "deleted worker replaced once; requests:"
printf '%s\n' "$lost" | sed 's/^/      /'
[ "$(grep -c . <<<"$lost")" -ge 1 ] && [ "$(awk '{ n += $1 } END { print n }' <<<"$lost")" -le $((4 + (SECONDS - since) / 30)) ] ||
  fail "a lost worker costs a create, an event, and a status write when lost and when back"

before=$(living life)
in_head life pkill -f gcs_server || true
wait_for 120 "the head's failure is seen" condition_is life Ready status False
ready life 240
wait_for 120 "Ray lists three nodes again" ray_lists life 3
say "the head's Ray process killed; the cluster is whole again"
[ "$(living life head | wc -l)" = 1 ] || fail "one head: $(living life head)"

before=$(living life worker)
victim=$(living life worker | head -n 1 | cut -d' ' -f1)
kubectl -n "$NS" patch pod "$victim" --subresource=status --type=merge \
  -p '{"status":{"phase":"Failed","reason":"Evicted","message":"The node was low on resource: ephemeral-storage."}}' >/dev/null
replaced() { [ "$(living life worker)" != "$before" ]; }
wait_for 60 "the evicted worker is replaced" replaced
wait_for 60 "two workers live" count_living life worker 2
ready life 240
events life | grep '^DeletedWorkerPod' | has Evicted || fail "no event says Evicted: $(events life)"
[ "$(count_events life DeletedWorkerPod)" = 1 ] || fail "one event for the evicted worker: $(events life)"
say "evicted worker replaced once, with its reason"

scale() { kubectl -n "$NS" patch raycluster life --type=json -p "[{\"op\":\"replace\",\"path\":\"/spec/workerGroupSpecs/0/replicas\",\"value\":$1}]" >/dev/null; }
before=$(living life)
scale 3
wait_for 60 "Ready says ScalingUp" condition_is life Ready reason ScalingUp
ready life 240
[ "$(comm -12 <(echo "$before") <(living life) | wc -l)" = "$(wc -l <<<"$before")" ] || fail "growing touched others"
count_living life worker 3 || fail "three workers: $(living life worker)"
wait_for 90 "Ray lists four nodes, and the evicted one no more" ray_lists life 4
before=$(living life)
scale 1
wait_for 120 "one worker" count_living life worker 1
ready life 240
[ "$(comm -12 <(echo "$before") <(living life) | wc -l)" = 2 ] || fail "shrinking made new pods"
say "2 -> 3 -> 1, only the pods in question"
[ "$(kubectl -n "$NS" get pods -l ray.io/cluster=life -o jsonpath='{.items[*].status.containerStatuses[0].restartCount}' | tr ' ' '\n' | sort -n | tail -n 1)" -le 3 ] ||
  fail "restarts: $(kubectl -n "$NS" get pods)"

kubectl -n "$NS" delete raycluster life --wait=true >/dev/null
left() { [ -z "$(kubectl -n "$NS" get pods,services -l ray.io/cluster=life -o name)" ]; }
wait_for 90 "pods and Services are gone with the cluster" left
say "deleted; nothing is left"
