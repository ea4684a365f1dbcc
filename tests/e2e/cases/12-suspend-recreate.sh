# Suspended, resumed, and recreated with another template: every pod once, on real Ray.
own_namespace e2e-recreate

sed 's/name: demo$/name: again/' "$REPOSITORY/examples/raycluster.yaml" | kubectl -n "$NS" apply -f - >/dev/null
ready again
before=$(living again)
[ "$(wc -l <<<"$before")" = 3 ] || fail "three pods: $before"

kubectl -n "$NS" patch raycluster again --type=merge -p '{"spec":{"suspend":true}}' >/dev/null
wait_for 90 "it is suspended" condition_is again RayClusterSuspended status True
[ -z "$(living again)" ] || fail "pods are left: $(living again)"
[ "$(kubectl -n "$NS" get raycluster again -o jsonpath='{.status.state}')" = suspended ] || fail "state suspended"
[ -n "$(kubectl -n "$NS" get service again-head-svc -o name)" ] || fail "the head Service stays"
say "suspended: no pods; the Service stays"
# Taken out again, not set to false: it resumes all the same.
kubectl -n "$NS" patch raycluster again --type=json -p '[{"op":"remove","path":"/spec/suspend"}]' >/dev/null
ready again 240
wait_for 60 "Ray lists three nodes" ray_lists again 3
[ -z "$(comm -12 <(echo "$before") <(living again))" ] || fail "pods of before the suspension live"
say "resumed: three new pods"

change() {
  kubectl -n "$NS" patch raycluster again --type=json -p "[
    {\"op\":\"add\",\"path\":\"/spec/headGroupSpec/template/spec/containers/0/env\",\"value\":[{\"name\":\"ROUND\",\"value\":\"$1\"}]},
    {\"op\":\"add\",\"path\":\"/spec/workerGroupSpecs/0/template/spec/containers/0/env\",\"value\":[{\"name\":\"ROUND\",\"value\":\"$1\"}]}]" >/dev/null
}
before=$(living again)
change one
wait_for 60 "TemplateDrift says so" condition_is again TemplateDrift status True
condition again TemplateDrift message | has 'env' || fail "it names what differs: $(condition again TemplateDrift message)"
[ "$(living again)" = "$before" ] || fail "without a strategy nothing is replaced"
say "$(condition again TemplateDrift message)"

began=$(now)
kubectl -n "$NS" patch raycluster again --type=merge -p '{"spec":{"upgradeStrategy":{"type":"Recreate"}}}' >/dev/null
renewed() { [ -z "$(comm -12 <(echo "$before") <(living again))" ] && count_living again head 1 && count_living again worker 2; }
wait_for 180 "all pods are new" renewed
ready again 240
wait_for 60 "Ray lists three nodes" ray_lists again 3
in_head again printenv ROUND | has one || fail "the new head has the new environment"
done_to() { requests "$OPERATOR_USER" "$began" | awk -v ns="$NS" -v verb="$1" '$4 == ns && $1 == verb && $2 == "pods" && $5 < 300' | wc -l; }
[ "$(done_to create)" = 3 ] && [ "$(done_to delete)" = 3 ] || fail "each pod once: $(done_to create) creates, $(done_to delete) deletes"
say "Recreate: three deletes, three creates, Ray lists three nodes"
