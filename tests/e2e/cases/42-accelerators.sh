# Only in the full run.
# Accelerators: what no node offers is said in AcceleratorsAvailable and beside the scheduler's own words; once the node offers
# it, the cluster becomes Ready by itself. The node's GPUs are a number in its status: nothing here needs a real one.
own_namespace e2e-accelerators
node=$(kubectl get nodes -o jsonpath='{.items[0].metadata.name}')
gpus() {
  kubectl patch node "$node" --subresource=status --type=json \
    -p "[{\"op\": \"add\", \"path\": \"/status/capacity/amd.com~1gpu\", \"value\": \"$1\"}]" >/dev/null
}
no_gpus() {
  for part in capacity allocatable; do
    kubectl patch node "$node" --subresource=status --type=json \
      -p "[{\"op\": \"remove\", \"path\": \"/status/$part/amd.com~1gpu\"}]" >/dev/null 2>&1 || true
  done
}
trap 'no_gpus; kubectl delete namespace "$NS" --ignore-not-found --wait=false >/dev/null 2>&1' EXIT

kubectl -n "$NS" apply -f - >/dev/null <<'YAML'
apiVersion: ray.io/v1
kind: RayCluster
metadata: {name: wide}
spec:
  headGroupSpec:
    template:
      spec:
        containers: [{name: ray, image: "rayproject/ray:2.52.0", imagePullPolicy: IfNotPresent, resources: {requests: {cpu: 200m, memory: 512Mi}}}]
  workerGroupSpecs:
  - groupName: gpu
    replicas: 1
    template:
      spec:
        containers: [{name: ray, image: "rayproject/ray:2.52.0", imagePullPolicy: IfNotPresent, resources: {requests: {cpu: 200m, memory: 512Mi}, limits: {amd.com/gpu: 8}}}]
YAML
wait_for 60 "no node offers it" condition_is wide AcceleratorsAvailable reason NoSuchNode
wait_for 60 "the scheduler says so too" condition_is wide Ready reason Unschedulable
say "no node offers it: $(condition wide AcceleratorsAvailable message | cut -c1-160)"

gpus 4
wait_for 120 "a node offers too few" condition_is wide AcceleratorsAvailable reason TooFewPerNode
condition wide AcceleratorsAvailable message | has "at most 4 amd.com/gpu ($node" || fail "the message does not say how many: $(condition wide AcceleratorsAvailable message)"
say "too few: $(condition wide AcceleratorsAvailable message | cut -c1-160)"

gpus 8
wait_for 60 "the node offers enough" condition_is wide AcceleratorsAvailable status True
ready wide
say "8 on one node: Ready"
