# shellcheck shell=bash
# What the cluster changes on the machine, and what the machine was like before: `before/` says how to put it back.

# kubelet, kube-proxy and the CNI plugins set these.
SYSCTLS="net.ipv4.ip_forward net.bridge.bridge-nf-call-iptables net.bridge.bridge-nf-call-ip6tables
  net.ipv4.conf.all.route_localnet vm.overcommit_memory vm.panic_on_oom kernel.panic kernel.panic_on_oops
  kernel.keys.root_maxkeys kernel.keys.root_maxbytes net.netfilter.nf_conntrack_max
  net.netfilter.nf_conntrack_tcp_timeout_established net.netfilter.nf_conntrack_tcp_timeout_close_wait
  net.netfilter.nf_conntrack_tcp_be_liberal"

# Folders outside ours that a component cannot be told to leave alone.
SHARED_FOLDERS="/run/containerd /var/lib/cni /var/lib/kubelet /var/log/containers /var/log/pods /run/netns
  /etc/cni /opt/cni /opt/containerd /run/nri /usr/libexec/kubernetes"

remember_before() {
  [ ! -d "$STATE/before" ] || return 0
  local new=$STATE/before.new name
  rm -rf "$new"
  mkdir -p "$new"
  cat /proc/sys/kernel/random/boot_id >"$new/boot"
  for name in $SYSCTLS; do
    sysctl -e "$name" 2>/dev/null || true
  done >"$new/sysctls"
  for name in $SHARED_FOLDERS; do
    [ -e "$name" ] || echo "$name"
  done >"$new/absent-folders"
  for name in iptables ip6tables; do
    "$name-save" 2>/dev/null | sed -n 's/^\*//p' >"$new/$name-tables"
  done
  mv "$new" "$STATE/before"
}

# A node that is not ours would fight with it for the same chains, cgroups and ports.
refuse_other_node() {
  local folder
  for folder in /proc/[0-9]*; do
    case $(cat "$folder/comm" 2>/dev/null || true) in
      kubelet | k3s | k3s-server | kube-proxy)
        die "another Kubernetes node runs here (pid ${folder#/proc/}): stop it, or use it with CLUSTER=current"
        ;;
    esac
  done
  if ip -4 route show "$POD_CIDR" | grep -v "dev $BRIDGE" >/dev/null; then
    die "$POD_CIDR is in use on this machine: set LOCALCLUSTER_POD_CIDR to another /24"
  fi
}

make_bridge() {
  modprobe -q -a br_netfilter overlay 2>/dev/null || true
  ip link show "$BRIDGE" >/dev/null 2>&1 || ip link add "$BRIDGE" type bridge
  [[ $(ip addr show dev "$BRIDGE") == *"inet $NODE_IP/"* ]] || ip addr add "$NODE_IP/${POD_CIDR#*/}" dev "$BRIDGE"
  ip link set "$BRIDGE" up
  sysctl -qw net.ipv4.ip_forward=1
  sysctl -qew net.bridge.bridge-nf-call-iptables=1 net.bridge.bridge-nf-call-ip6tables=1
}

cgroup_roots() {
  if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
    echo /sys/fs/cgroup
  else
    find /sys/fs/cgroup -mindepth 1 -maxdepth 1 -type d
  fi
}

make_cgroups() {
  local root ours controller controllers
  while read -r root; do
    ours=$root/$CGROUP
    mkdir -p "$ours"
    if [ -e "$root/cgroup.controllers" ]; then
      read -ra controllers <"$root/cgroup.controllers"
      for controller in "${controllers[@]}"; do
        echo "+$controller" >"$root/cgroup.subtree_control" || true
        echo "+$controller" >"$ours/cgroup.subtree_control" || true
      done
    elif [ -e "$ours/cpuset.mems" ]; then
      cat "$root/cpuset.cpus" >"$ours/cpuset.cpus"
      cat "$root/cpuset.mems" >"$ours/cpuset.mems"
    fi
  done < <(cgroup_roots)
}
