# Clusters whose YAML starts Ray by itself (docs/COMPATIBILITY.md), through v1 and v1alpha1: Ready as they stand, and
# they stay so without a restart. STAY is how long, in seconds.
own_namespace e2e-own-start

check() {
  local name=$1 file=$2
  kubectl -n "$NS" apply -f "$REPOSITORY/examples/$file" 2>/dev/null >/dev/null
  ready "$name"
  local since=$SECONDS uids
  uids=$(living "$name")
  [ "$(wc -l <<<"$uids")" = 3 ] || fail "a head and two workers: $uids"
  events "$name" | has -- '--block' || fail "no event recommends --block: $(events "$name")"
  wait_for 60 "Ray lists three nodes" ray_lists "$name" 3
  while [ $((SECONDS - since)) -lt "${STAY:-30}" ]; do
    condition_is "$name" Ready status True || fail "it did not stay Ready: $(condition "$name" Ready message)"
    sleep 1
  done
  [ "$(living "$name")" = "$uids" ] || fail "pods changed: $uids / $(living "$name")"
  local restarts
  restarts=$(kubectl -n "$NS" get pods -l "ray.io/cluster=$name" -o jsonpath='{.items[*].status.containerStatuses[*].restartCount}')
  [ -z "$(tr -d '0 ' <<<"$restarts")" ] || fail "containers restarted: $restarts"
  say "$file is Ready and stayed so for ${STAY:-30} s without a restart"
  kubectl -n "$NS" delete raycluster "$name" --wait=true >/dev/null
  wait_for 90 "its pods are gone" count_living "$name" "" 0
}
name_of() { kubectl create --dry-run=client -f "$REPOSITORY/examples/$1" -o 'jsonpath={.metadata.name}' 2>/dev/null; }
for file in raycluster-a1.yaml raycluster-a1-v1alpha1.yaml; do
  check "$(name_of "$file")" "$file"
done
