# Ray's autoscaler v2 on real Ray: from no worker to two and back, with nothing but the rights that it is given.
own_namespace e2e-autoscaler-v2
source "$HERE/autoscaler.sh"

kubectl -n "$NS" apply -f "$REPOSITORY/examples/raycluster-autoscaler.yaml" >/dev/null
ready scaled 240
[ "$(kubectl -n "$NS" get pod "$(living scaled head | cut -d' ' -f1)" -o 'jsonpath={.spec.restartPolicy}')" = Never ] ||
  fail "v2 wants pods that do not restart"
autoscaled_life scaled scaled

kubectl -n "$NS" delete raycluster scaled --wait=true >/dev/null
left() { [ -z "$(kubectl -n "$NS" get serviceaccounts,roles,rolebindings -l ray.io/cluster=scaled -o name)" ]; }
wait_for 90 "its rights go with it" left
