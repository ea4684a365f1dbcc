# Only in the full run.
# Token login on real Ray: without the token nobody gets in, by HTTP or as a driver; with it all works. Health checks need
# none. The token is told nowhere but in its Secret.
own_namespace e2e-login
kubectl -n "$NS" apply -f "$REPOSITORY/examples/raycluster-login.yaml" >/dev/null
ready login
token=$(kubectl -n "$NS" get secret login -o 'jsonpath={.data.auth_token}' | base64 -d)
[ "${#token}" -ge 32 ] || fail "the token has ${#token} characters"
secret_of() { kubectl -n "$NS" get secret login -o 'jsonpath={.metadata.uid} {.data.auth_token}'; }
made=$(secret_of)
wait_for 60 "Ray lists two nodes for those who know the token" ray_lists login 2
say "Ready; the worker joined with the token"

dashboard=http://login-head-svc.$NS.svc:8265
# From the worker: across the network, by the Service's name.
worker=$(living login worker | head -n 1 | cut -d' ' -f1)
code() { kubectl -n "$NS" exec "$worker" -c ray-worker -- curl -s -o /dev/null --max-time 20 -w '%{http_code}' "$@"; }
expect() {
  local wanted=$1 what=$2 got
  shift 2
  got=$(code "$@") || true
  [ "$got" = "$wanted" ] || fail "$what: the dashboard answers $got, not $wanted"
}
expect 401 "no token" "$dashboard/nodes?view=summary"
expect 401 "no token, jobs" "$dashboard/api/jobs/"
expect 403 "a wrong token" -H "Authorization: Bearer wrong" "$dashboard/nodes?view=summary"
expect 200 "the token" -H "Authorization: Bearer $token" "$dashboard/nodes?view=summary"
expect 200 "the token in the other header" -H "X-Ray-Authorization: Bearer $token" "$dashboard/api/jobs/"
expect 200 "health needs no token" "$dashboard/api/gcs_healthz"
expect 200 "health of a worker needs no token" http://localhost:52365/api/local_raylet_healthz
say "HTTP: 401 without a token, 403 with a wrong one, 200 with it; health checks answer anybody"

script='import ray; ray.init(log_to_driver=False); print("sum is", ray.get(ray.remote(lambda: 40 + 2).remote()))'
submitted=$(in_head login ray job submit --address http://localhost:8265 -- python -c "$script" 2>&1) || fail "ray job submit with the token: $submitted"
has 'sum is 42' <<<"$submitted" || fail "the job's output: $submitted"
say "a job runs for who knows the token"
refused() {
  local what=$1 out
  shift
  if out=$(in_head login timeout 90 env -u RAY_AUTH_TOKEN "$@" 2>&1); then fail "$what got in: $out"; fi
  say "$what is refused: $(grep -iE 'auth|token|401|403' <<<"$out" | tail -n 1 | cut -c1-140)"
}
refused "a job without the token" HOME=/nowhere ray job submit --address http://localhost:8265 -- python -c "$script"
refused "a job without login" RAY_AUTH_MODE=disabled ray job submit --address http://localhost:8265 -- python -c "$script"
refused "a job with a wrong token" RAY_AUTH_TOKEN=wrong ray job submit --address http://localhost:8265 -- python -c "$script"
refused "a driver with a wrong token" RAY_AUTH_TOKEN=wrong python -c "$script"
refused "a driver without login" RAY_AUTH_MODE=disabled python -c "$script"

# The operator starts again and a worker is lost: the token stays, and the new worker knows it.
kubectl -n "$OPERATOR_NAMESPACE" rollout restart deployment/ray-operator >/dev/null
kubectl -n "$OPERATOR_NAMESPACE" rollout status deployment/ray-operator --timeout=120s >/dev/null
kubectl -n "$NS" delete pod "$worker" --wait=false >/dev/null
replaced() { [ "$(living login worker | wc -l)" = 1 ] && ! living login worker | has "^$worker "; }
wait_for 60 "the worker is replaced" replaced
ready login 240
wait_for 90 "Ray lists two nodes again" ray_lists login 2
[ "$(secret_of)" = "$made" ] || fail "the Secret changed"
say "the operator started again: same token, and a new worker joined"

for secret in "$token" "${made##* }"; do
  for where in events.events.k8s.io rayclusters pods services; do
    ! kubectl -n "$NS" get "$where" -o yaml | has -F -- "$secret" || fail "the token is in the $where"
  done
  ! kubectl -n "$OPERATOR_NAMESPACE" logs deploy/ray-operator | has -F -- "$secret" || fail "the token is in the operator's log"
done
say "the token is in no event, status, pod or log"
