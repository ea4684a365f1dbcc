# shellcheck shell=bash
# CLUSTER=current: the cluster of $KUBECONFIG, which we neither start nor stop. CLUSTER=kind: one in Docker.

KIND_NAME=${KIND_NAME:-ray-operator}

up_other() {
  case $CLUSTER in
    current)
      need_tool kubectl "see kubernetes.io/docs/tasks/tools"
      [ -n "${KUBECONFIG:-}" ] || die "CLUSTER=current needs KUBECONFIG to say which cluster"
      kubectl get --raw /readyz >/dev/null || die "the cluster of $KUBECONFIG does not answer"
      say "Using the cluster of $KUBECONFIG: $(kubectl get nodes -o name | wc -l) node(s)."
      ;;
    kind)
      need_tool docker "kind runs nodes as Docker containers"
      docker info >/dev/null 2>&1 || die "Docker is here but its daemon does not answer"
      need_tool kind "see kind.sigs.k8s.io"
      need_tool kubectl "see kubernetes.io/docs/tasks/tools"
      kind get clusters 2>/dev/null | grep -x "$KIND_NAME" >/dev/null || kind create cluster --name "$KIND_NAME" --wait 120s
      kind export kubeconfig --name "$KIND_NAME"
      ;;
    *) die "CLUSTER=$CLUSTER is not one of local, current, kind" ;;
  esac
}

down_other() {
  case $CLUSTER in
    current) say "CLUSTER=current: that cluster is yours, nothing to do." ;;
    kind) kind delete cluster --name "$KIND_NAME" ;;
    *) die "CLUSTER=$CLUSTER is not one of local, current, kind" ;;
  esac
}

status_other() {
  kubectl get nodes -o wide
}
