# State in Redis on real Ray: two clusters share one Redis. A new head finds what the old one knew, the worker stays; a
# deleted cluster's keys go and the other's stay; a namespace with such a cluster in it goes too.
own_namespace e2e-redis
example=$REPOSITORY/examples/raycluster-redis.yaml
kubectl -n "$NS" apply -f "$example" >/dev/null
# The other one needs no worker: its head alone has state. Its keys are under a name of the user's choice.
sed '1,/^kind: Deployment/d' "$example" | sed '1,/^---/d' |
  sed -e 's/name: durable$/name: sibling/' -e 's/replicas: 1$/replicas: 0/' -e 's/^    redisAddress:.*/&\n    externalStorageNamespace: other/' |
  kubectl -n "$NS" apply -f - >/dev/null
ready durable 240
ready sibling 240
finalizers() { kubectl -n "$NS" get raycluster "$1" -o 'jsonpath={.metadata.finalizers}'; }
for name in durable sibling; do
  finalizers "$name" | has gcs-ft-redis-cleanup-finalizer || fail "$name has no finalizer: $(finalizers "$name")"
done
uid=$(kubectl -n "$NS" get raycluster durable -o 'jsonpath={.metadata.uid}')
# keys NAMESPACE: how many keys Redis has of a storage namespace.
keys() { kubectl -n "$NS" exec deploy/redis -- redis-cli --scan --pattern "RAY$1@*" | grep -c . || true; }
some_keys() { [ "$(keys "$1")" -gt 0 ]; }
wait_for 30 "state of durable is in Redis, under its uid" some_keys "$uid"
wait_for 30 "state of sibling is in Redis, under its own name" some_keys other
say "two clusters in one Redis: $(keys "$uid") keys and $(keys other) keys"

in_ray() {
  in_head durable python -c "
import ray
ray.init(address='auto', namespace='keep', log_to_driver=False, logging_level='ERROR')
$1" 2>&1 | tail -n 1
}
started=$(in_ray "
@ray.remote(max_restarts=-1, max_task_retries=-1, num_cpus=0.1)
class Counter:
    def __init__(self):
        self.n = 0
    def up(self):
        self.n += 1
        return self.n
counter = Counter.options(name='counter', lifetime='detached').remote()
print('count is', ray.get(counter.up.remote(), timeout=60))") || true
[ "$started" = "count is 1" ] || fail "the actor does not start: $started"

workers=$(living durable worker)
old=$(living durable head)
kubectl -n "$NS" delete pod "${old%% *}" --grace-period=1 --wait=false >/dev/null
new_head() { count_living durable head 1 && [ "$(living durable head)" != "$old" ]; }
wait_for 90 "another head" new_head
ready durable 240
[ "$(living durable worker)" = "$workers" ] || fail "the worker was replaced: $workers / $(living durable worker)"
wait_for 120 "Ray lists head and worker" ray_lists durable 2
answers() {
  local said
  said=$(in_ray "print('count is', ray.get(ray.get_actor('counter').up.remote(), timeout=30))")
  case $said in 'count is '[2-9]*) ;; *) return 1 ;; esac
}
wait_for 120 "the actor answers through the new head, with its memory" answers
restarts=$(kubectl -n "$NS" get pods -l ray.io/cluster=durable,ray.io/node-type=worker -o 'jsonpath={.items[*].status.containerStatuses[*].restartCount}')
[ "$restarts" = 0 ] || fail "the worker's container restarted: $restarts"
say "the head was killed; a detached actor answers through the new one, the worker is the same"

since=$SECONDS
kubectl -n "$NS" delete raycluster durable --wait=true --timeout=240s >/dev/null || fail "durable is not deleted: $(condition durable Ready message)"
[ "$(keys "$uid")" = 0 ] || fail "keys are left: $(keys "$uid")"
some_keys other || fail "the other cluster lost its keys"
events durable | has '^CreatedRedisCleanupJob' || fail "no event for the Job: $(events durable)"
! events durable | has -E '^(RedisCleanupFailed|ForceDeletedStuckCluster)' || fail "not cleaned up: $(events durable)"
left() { [ -z "$(kubectl -n "$NS" get pods,jobs,services -l ray.io/cluster=durable -o name)" ]; }
wait_for 90 "Job, pods and Services are gone with the cluster" left
condition_is sibling Ready status True || fail "the other cluster suffered: $(condition sibling Ready message)"
say "deleted in $((SECONDS - since)) s; its keys are gone, the other's $(keys other) keys stay"

since=$SECONDS
kubectl delete namespace "$NS" --wait=true --timeout=180s >/dev/null || fail "the namespace hangs: $(kubectl get namespace "$NS" -o yaml)"
say "a namespace with such a cluster in it is gone in $((SECONDS - since)) s"
