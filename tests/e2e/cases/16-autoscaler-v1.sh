# Only in the full run.
# Ray's autoscaler v1 on real Ray, under a ServiceAccount of the user's own, which is missing at first.
own_namespace e2e-autoscaler-v1
source "$HERE/autoscaler.sh"

sed -e 's/version: v2$/version: v1/' -e 's/name: scaled$/name: older/' \
  -e '0,/^      spec:$/s//      spec:\n        serviceAccountName: scaler/' \
  "$REPOSITORY/examples/raycluster-autoscaler.yaml" | kubectl -n "$NS" apply -f - >/dev/null
wait_for 60 "the missing ServiceAccount is the reason" condition_is older Ready reason AutoscalerServiceAccountNotFound
condition older Ready message | has 'serviceaccount "scaler" not found' || fail "it is not named: $(condition older Ready message)"
said() { [ "$(count_events older AutoscalerServiceAccountNotFound)" = 1 ]; }
wait_for 30 "an event says so, once" said
count_living older "" 0 || fail "pods without the account: $(living older)"
say "without the account: $(condition older Ready message | cut -c1-140)"

kubectl -n "$NS" create serviceaccount scaler >/dev/null
wait_for 60 "the head comes once the account is there" count_living older head 1
ready older 240
[ -z "$(kubectl -n "$NS" get serviceaccount scaler -o 'jsonpath={.metadata.ownerReferences}')" ] || fail "the user's account got an owner"
autoscaled_life older scaler

kubectl -n "$NS" delete raycluster older --wait=true >/dev/null
kubectl -n "$NS" get serviceaccount scaler >/dev/null || fail "the user's account went with the cluster"
say "the user's account stays"
