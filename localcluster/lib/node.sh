# shellcheck shell=bash
# containerd, the kubelet, kube-proxy, cluster DNS and the volume provisioner.

SERVICES="etcd apiserver controllers scheduler containerd kubelet kube-proxy dns volume-provisioner"

render() { # render NAME: a file of config/ with this cluster's values, into the state folder
  mkdir -p "$STATE/config"
  sed -e "s|@STATE@|$STATE|g" -e "s|@CNI@|$(built cni)|g" -e "s|@BRIDGE@|$BRIDGE|g" -e "s|@CGROUP@|$CGROUP|g" \
    -e "s|@NODE_IP@|$NODE_IP|g" -e "s|@NODE_NAME@|$NODE_NAME|g" -e "s|@POD_CIDR@|$POD_CIDR|g" \
    -e "s|@PAUSE_IMAGE@|$PAUSE_IMAGE|g" -e "s|@RUNC@|$(command -v runc)|g" \
    -e "s|@IMAGE_STORE@|$(image_store)|g" -e "s|@FORWARD@|$(forward_of)|g" \
    "$HERE/config/$1" >"$STATE/config/$1"
}

# Names outside the cluster are asked where the machine asks; a machine without a resolver has none to ask.
forward_of() {
  if grep -q '^nameserver' /etc/resolv.conf 2>/dev/null; then echo "forward . /etc/resolv.conf"; fi
}

start_containerd() {
  mkdir -p "$STATE/config/cni" "$STATE/containerd"
  render containerd.toml
  render cni.conflist
  mv "$STATE/config/cni.conflist" "$STATE/config/cni/10-pods.conflist"
  start containerd "$STATE/bin/containerd" --config "$STATE/config/containerd.toml"
  ready containerd 30 containers version
}

# The store of images outlives a cluster, and with it what an unclean end left there of its pods.
forget_old_pods() {
  pid_of kubelet >/dev/null || stop_pods
}
stop_pods() {
  localkube stop-pods --endpoint "unix://$CONTAINERD_SOCKET" --limit 60s
}

start_node() {
  mkdir -p "$STATE/kubelet" "$STATE/pod-logs" "$STATE/volumes"
  render kubelet.yaml
  render kube-proxy.yaml
  render Corefile
  start kubelet "$STATE/bin/localkube" kubelet --config "$STATE/config/kubelet.yaml" \
    --kubeconfig "$STATE/kubelet.kubeconfig" --hostname-override "$NODE_NAME" --node-ip "$NODE_IP" \
    --root-dir "$STATE/kubelet" --cert-dir "$STATE/kubelet/pki"
  start kube-proxy "$STATE/bin/localkube" kube-proxy --config "$STATE/config/kube-proxy.yaml"
  start dns "$STATE/bin/coredns" -conf "$STATE/config/Corefile"
  start volume-provisioner "$STATE/bin/localkube" volume-provisioner --directory "$STATE/volumes" \
    --kubeconfig "$STATE/volume-provisioner.kubeconfig" --node "$NODE_NAME"
}

wait_for_node() {
  admin apply -f "$HERE/config/storage-class.yaml"
  ready kubelet 60 admin get "node/$NODE_NAME"
  admin wait --for=condition=Ready "node/$NODE_NAME" --timeout=60s
  ready controllers 30 admin -n default get serviceaccount default
  local name
  for name in $SERVICES; do
    ready "$name" 1 true
  done
}
