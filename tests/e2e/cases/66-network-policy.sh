# Only in the full run.
# Network policies: the cluster is Ready with them, they select its pods and no others, and they go with the spec. Where the
# network enforces policies, a stranger is kept out as well; where it does not, the case says so.
own_namespace e2e-network
kubectl -n "$NS" apply -f "$REPOSITORY/examples/raycluster-network-policy.yaml" >/dev/null
image=rayproject/ray:2.52.0
# stranger NAME LABELS: a pod that is none of the cluster's.
stranger() {
  kubectl -n "$NS" run "$1" --image="$image" --image-pull-policy=IfNotPresent --labels="$2" --restart=Never --command -- \
    bash -c 'cd /tmp && exec python3 -m http.server 8000' >/dev/null
}
stranger stranger app=stranger
stranger friend example.com/may-use-ray=true
stranger locked app=locked
ready shielded
wait_for 60 "Ray lists two nodes" ray_lists shielded 2
kubectl -n "$NS" wait --for=condition=Ready pod/stranger pod/friend pod/locked --timeout=90s >/dev/null
say "Ready with policies in place: Ray's own traffic, DNS and the operator get through"

policies=$(kubectl -n "$NS" get networkpolicies -o name | sort | tr '\n' ' ')
[ "$policies" = "networkpolicy.networking.k8s.io/shielded-head networkpolicy.networking.k8s.io/shielded-workers-workers " ] ||
  fail "one policy for the head, one for the group: $policies"
selects() {
  local selector
  selector=$(kubectl -n "$NS" get networkpolicy "$1" \
    -o go-template='{{range $k, $v := .spec.podSelector.matchLabels}}{{$k}}={{$v}},{{end}}')
  [ -n "$selector" ] || fail "policy $1 selects all pods of the namespace"
  kubectl -n "$NS" get pods -l "${selector%,}" -o name | sort
}
[ "$(selects shielded-head)" = "$(pods shielded head)" ] || fail "shielded-head selects $(selects shielded-head)"
[ "$(selects shielded-workers-workers)" = "$(pods shielded worker)" ] || fail "shielded-workers-workers selects $(selects shielded-workers-workers)"
[ "$(pods shielded | wc -l)" = 2 ] || fail "two pods: $(pods shielded)"
for policy in shielded-head shielded-workers-workers; do
  [ "$(kubectl -n "$NS" get networkpolicy "$policy" -o 'jsonpath={.spec.policyTypes}')" = '["Ingress","Egress"]' ] ||
    fail "$policy does not deny both ways"
done
made=$(kubectl -n "$NS" get networkpolicies -o 'jsonpath={range .items[*]}{.metadata.creationTimestamp}{"\n"}{end}' | sort | tail -n 1)
first=$(kubectl -n "$NS" get pods -l ray.io/cluster=shielded -o 'jsonpath={range .items[*]}{.metadata.creationTimestamp}{"\n"}{end}' | sort | head -n 1)
[[ ! "$made" > "$first" ]] || fail "a pod ($first) is older than a policy ($made)"
operator=$(kubectl -n "$NS" get networkpolicy shielded-head -o 'jsonpath={.spec.ingress[*].from[*].namespaceSelector.matchLabels.kubernetes\.io/metadata\.name}')
[ "$operator" = "$OPERATOR_NAMESPACE" ] || fail "the operator's namespace is let through, not '$operator'"
app=$(kubectl -n "$NS" get networkpolicy shielded-head -o 'jsonpath={.spec.ingress[*].from[*].podSelector.matchLabels.app\.kubernetes\.io/name}')
[ -n "$(kubectl -n "$OPERATOR_NAMESPACE" get pods -l "app.kubernetes.io/name=$app" -o name)" ] || fail "no operator pod bears the name '$app'"
say "the policies select head and worker and nobody else, and are older than the pods; the operator's pods may come in"

ip() { kubectl -n "$NS" get pod "$1" -o 'jsonpath={.status.podIP}'; }
# reaches POD ADDRESS PORT: a TCP connection from that pod.
reaches() { kubectl -n "$NS" exec "$1" -- timeout 5 bash -c "exec 3<>/dev/tcp/$2/$3" 2>/dev/null; }
head=$(living shielded head | head -n 1 | cut -d' ' -f1)
kubectl -n "$NS" apply -f - >/dev/null <<YAML
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: control}
spec: {podSelector: {matchLabels: {app: locked}}, policyTypes: [Ingress]}
YAML
enforced=no
for _ in $(seq 10); do
  if ! reaches stranger "$(ip locked)" 8000; then enforced=yes; break; fi
  sleep 1
done
wait_for 60 "the friend reaches the dashboard" reaches friend "$(ip "$head")" 8265
if [ $enforced = yes ]; then
  ! reaches stranger "$(ip "$head")" 8265 || fail "a stranger reaches the dashboard"
  ! reaches stranger "$(ip "$head")" 6379 || fail "a stranger reaches the control store"
  ! reaches friend "$(ip "$head")" 6379 || fail "the friend reaches more than it may"
  ! reaches "$head" "$(ip stranger)" 8000 || fail "the head reaches a stranger"
  say "enforced: a stranger is kept out, a friend gets to the dashboard only, and the head does not get out"
else
  say "NOT ENFORCED: this cluster's network lets a connection through that a policy of the test's own denies (a plain bridge"
  say "does). What the policies say was checked above; that a stranger is kept out was not, and cannot be here."
fi
kubectl -n "$NS" delete networkpolicy control >/dev/null

before=$(living shielded)
kubectl -n "$NS" patch raycluster shielded --type=merge -p '{"spec":{"networkPolicy":null}}' >/dev/null
gone() { [ -z "$(kubectl -n "$NS" get networkpolicies -o name)" ]; }
wait_for 30 "the policies go with the spec" gone
wait_for 30 "an event tells of it" eval 'events shielded | has "^DeletedNetworkPolicy"'
[ "$(living shielded)" = "$before" ] || fail "pods were touched"
say "taken out of the spec: the policies are gone, no pod was touched"
