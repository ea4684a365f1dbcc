# One life under Ray's autoscaler: from no worker to two, down to one, down to none. Sourced by its cases.

# Runs Python in the head; standard input is the program.
ray_program() { in_head "$1" python -W ignore -; }

# autoscaled_life CLUSTER ACCOUNT: the cluster is Ready without workers; its head runs as that ServiceAccount.
autoscaled_life() {
  local cluster=$1 group=workers chosen began account=system:serviceaccount:$NS:$2
  chosen=$(mktemp)
  # All that the autoscaler ever names.
  kubectl -n "$NS" get raycluster "$cluster" --watch -o json >"$chosen" 2>/dev/null &
  watcher=$!
  trap 'kill "$watcher" 2>/dev/null || true; kubectl delete namespace "$NS" --ignore-not-found --wait=false >/dev/null 2>&1' EXIT
  count_living "$cluster" worker 0 || fail "there are workers already: $(living "$cluster" worker)"
  began=$(now)

  ray_program "$cluster" <<'PY' >/dev/null || fail "the two actors do not start: $(autoscaler_log "$cluster")"
import ray
ray.init(address="auto", namespace="e2e", log_to_driver=False, logging_level="ERROR")
@ray.remote(num_cpus=1)
class Busy:
    def node(self):
        return ray.get_runtime_context().get_node_id()
actors = [Busy.options(name=f"busy-{n}", lifetime="detached").remote() for n in range(2)]
assert len(set(ray.get([a.node.remote() for a in actors], timeout=300))) == 2
PY
  wait_for 60 "two workers" count_living "$cluster" worker 2
  ready "$cluster" 240
  say "two actors that want a CPU each: two workers"
  local both kept
  both=$(living "$cluster" worker)

  release "$cluster" busy-0
  wait_for 240 "one worker, after the other was idle" count_living "$cluster" worker 1
  kept=$(living "$cluster" worker)
  [ "$(comm -12 <(echo "$both") <(echo "$kept") | wc -l)" = 1 ] || fail "another worker took its place: $both / $kept"
  ray_program "$cluster" <<'PY' >/dev/null || fail "the actor that still works was moved or lost"
import ray
ray.init(address="auto", namespace="e2e", log_to_driver=False, logging_level="ERROR")
ray.get(ray.get_actor("busy-1").node.remote(), timeout=60)
PY
  say "one actor ends: its worker goes, the other's stays"

  release "$cluster" busy-1
  wait_for 240 "no worker" count_living "$cluster" worker 0
  ready "$cluster" 240
  sleep 5
  count_living "$cluster" worker 0 || fail "a worker came back: $(living "$cluster" worker)"
  say "the other ends: no worker is left"

  local deleted named
  named=$(python3 -c '
import json, sys
text, names = sys.stdin.read(), set()
decoder = json.JSONDecoder()
while text.strip():
    try:
        seen, end = decoder.raw_decode(text.lstrip())
    except ValueError:
        break  # the last object may be half written
    text = text.lstrip()[end:]
    for group in seen["spec"].get("workerGroupSpecs", []):
        names.update((group.get("scaleStrategy") or {}).get("workersToDelete") or [])
print("\n".join(sorted(names)))' <"$chosen")
  # "Deleted pods a, b: why; c: why"
  deleted=$(events "$cluster" | sed -n 's/^DeletedWorkerPod\t//p' | grep -o "$cluster-$group-worker-[a-z0-9]*" | sort -u)
  [ "$(wc -l <<<"$deleted")" = 2 ] || fail "two workers were deleted in all: $(events "$cluster")"
  [ "$deleted" = "$named" ] || fail "deleted: $deleted; named by the autoscaler: $named"
  ! events "$cluster" | grep '^DeletedWorkerPod' | has -v 'autoscaler chose it' || fail "deleted for another reason: $(events "$cluster")"
  [ "$(comm -3 <(echo "$both" | cut -d' ' -f1) <(echo "$deleted") | wc -l)" = 0 ] || fail "others than the two were deleted: $both / $deleted"
  say "each deletion is of the pod that the autoscaler named"

  requests "$account" "$began" | has '^patch rayclusters - ' || fail "the audit log shows no patch by the autoscaler: is it read right?"
  local specs
  specs=$(requests "$OPERATOR_USER" "$began" | grep -E '^(patch|update) rayclusters - ' || true)
  [ -z "$specs" ] || fail "the operator wrote to RayClusters: $specs"
  local denied
  denied=$(requests "$account" "$began" | grep ' 403$' | sort | uniq -c || true)
  [ -z "$denied" ] || fail "the autoscaler lacks rights: $denied"
  say "the autoscaler alone writes the spec, and is refused nothing"
  kill "$watcher" 2>/dev/null || true
  rm -f "$chosen"
}

release() {
  ray_program "$1" <<PY >/dev/null || fail "$2 does not end"
import ray
ray.init(address="auto", namespace="e2e", log_to_driver=False, logging_level="ERROR")
ray.kill(ray.get_actor("$2"))
PY
}

autoscaler_log() {
  local head
  head=$(living "$1" head | head -n 1 | cut -d' ' -f1)
  kubectl -n "$NS" logs "$head" -c autoscaler --tail=20
}
