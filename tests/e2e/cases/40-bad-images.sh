# What goes wrong on a real node is visible within seconds in Ready's reason and message, costs a bounded number of
# writes, and heals when the YAML is mended.
own_namespace e2e-bad

manifest() {
  cat <<YAML
apiVersion: ray.io/v1
kind: RayCluster
metadata: {name: $1}
spec:
  headGroupSpec:
    template:
      spec:
        containers: [{name: ray, image: "$2", imagePullPolicy: IfNotPresent, resources: {requests: {cpu: 200m, memory: 512Mi}}${3:-}}]
YAML
}
manifest nowhere registry.invalid/no/such:image | kubectl -n "$NS" apply -f - >/dev/null
wait_for 60 "ImagePull is the reason" condition_is nowhere Ready reason ImagePull
condition nowhere Ready message | has 'registry.invalid/no/such:image' || fail "the message does not name the image: $(condition nowhere Ready message)"
say "an image that does not exist: $(condition nowhere Ready message | cut -c1-120)"

manifest exits rayproject/ray:2.52.0 ', command: ["sh", "-c", "echo no such model; exit 3"]' |
  sed 's/metadata: {name: exits}/metadata: {name: exits, annotations: {ray.io\/overwrite-container-cmd: "true"}}/' | kubectl -n "$NS" apply -f - >/dev/null
wait_for 90 "CrashLoop is the reason" condition_is exits Ready reason CrashLoop
condition exits Ready message | has 'exit code 3' || fail "the message has no exit code: $(condition exits Ready message)"
condition exits Ready message | has 'no such model' || fail "the message has no last line: $(condition exits Ready message)"
say "a container that exits at once: $(condition exits Ready message | cut -c1-160)"

manifest huge rayproject/ray:2.52.0 | sed 's/cpu: 200m/cpu: "64"/' | kubectl -n "$NS" apply -f - >/dev/null
wait_for 60 "Unschedulable is the reason" condition_is huge Ready reason Unschedulable
say "too large for any node: $(condition huge Ready message | cut -c1-120)"

began=$(now)
sleep "${QUIET:-20}"
writes=$(requests "$OPERATOR_USER" "$began" | awk -v ns="$NS" '$4 == ns && $1 != "watch" && $1 != "get"' | wc -l)
[ "$writes" -le 8 ] || fail "$writes writes in ${QUIET:-20} s for three clusters that cannot start"
say "$writes writes in ${QUIET:-20} s for the three of them"

# The container may restart, so its pod is left alone; the user removes it after mending the spec.
for name in nowhere exits huge; do
  manifest "$name" rayproject/ray:2.52.0 | kubectl -n "$NS" apply -f - >/dev/null
  kubectl -n "$NS" annotate raycluster "$name" ray.io/overwrite-container-cmd- >/dev/null
  kubectl -n "$NS" delete pod -l "ray.io/cluster=$name" --wait=false >/dev/null
done
for name in nowhere exits huge; do ready "$name"; done
say "mended: all three are Ready"
