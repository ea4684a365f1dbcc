# shellcheck shell=bash
# Puts the machine back. Each function removes only what is recognisably ours and is fine with nothing to do.

end_processes() {
  local name
  for name in kubelet scheduler controllers volume-provisioner; do stop "$name" 5; done
  if pid_of containerd >/dev/null; then
    stop_pods || warn "some pods did not stop by themselves; ending them by their cgroup"
  fi
  for name in kube-proxy dns apiserver containerd etcd; do stop "$name" 3; done
  end_strays
  end_cgroup_members
  # Until their parent has asked for the exit code, `ps` shows them.
  wait_until 10 all_reaped || true
}

end_for_good() { # end_for_good PID
  if kill -9 "$1" 2>/dev/null; then ENDED+=("$1"); fi
}
all_reaped() {
  local pid
  for pid in "${ENDED[@]}"; do [ ! -d "/proc/$pid" ] || return 1; done
}

# By what they were started with, in case a record of theirs was lost: our programs, and the shims of our containerd.
end_strays() {
  local folder command
  for folder in /proc/[0-9]*; do
    command=$(tr '\0' ' ' 2>/dev/null <"$folder/cmdline") || continue
    case $command in
      "$STATE/bin/"* | *"containerd-shim-runc-v2 "*"-address $CONTAINERD_SOCKET "*) end_for_good "${folder#/proc/}" ;;
    esac
  done
}

our_cgroups() { find /sys/fs/cgroup -maxdepth 2 -type d -name "$CGROUP" 2>/dev/null || true; }

end_cgroup_members() {
  local root file pid
  for root in $(our_cgroups); do
    while read -r file; do
      while read -r pid; do end_for_good "$pid"; done <"$file"
    done < <(find "$root" -name cgroup.procs)
  done
}

remove_cgroups() {
  local root
  for root in $(our_cgroups); do
    wait_until 5 remove_cgroup "$root" || warn "cgroup $root is still in use"
  done
}
remove_cgroup() {
  find "$1" -depth -type d -exec rmdir {} + 2>/dev/null || true
  [ ! -d "$1" ]
}

mounts_below() { awk -v prefix="$1/" 'index($5, prefix) == 1 { print $5 }' /proc/self/mountinfo | sort -r; }

unmount_all() {
  local point
  for point in $(mounts_below "$STATE") $(mounts_below "$CACHE"); do
    umount "$point" 2>/dev/null || umount -l "$point" || true
  done
}

remove_interfaces() {
  local link
  for link in $(ip -o link show master "$BRIDGE" 2>/dev/null | awk -F': ' '{ sub(/@.*/, "", $2); print $2 }'); do
    ip link del "$link" || true
  done
  ! ip link show "$BRIDGE" >/dev/null 2>&1 || ip link del "$BRIDGE"
}

# Rules of others that jump into our chains go first, then the chains' rules, then the chains: one transaction a table.
remove_chains() {
  local family table
  for family in iptables ip6tables; do
    command -v "$family-save" >/dev/null || continue
    for table in $("$family-save" 2>/dev/null | sed -n 's/^\*//p'); do
      "$family-save" -t "$table" 2>/dev/null | awk -v table="$table" '
        BEGIN { print "*" table }
        /^:(KUBE|CNI)-/ { chain[++chains] = substr($1, 2) }
        /^-A / && $2 !~ /^(KUBE|CNI)-/ && / -[jg] (KUBE|CNI)-/ { sub(/^-A/, "-D"); print }
        END {
          for (i = 1; i <= chains; i++) print "-F " chain[i]
          for (i = 1; i <= chains; i++) print "-X " chain[i]
          print "COMMIT"
        }' | "$family-restore" --noflush
      remove_new_table "$family" "$table"
    done
  done
}

# iptables over nf_tables makes a table when it is first asked for one and never removes it.
remove_new_table() { # remove_new_table FAMILY TABLE
  local nft_family=ip
  [ "$1" = iptables ] || nft_family=ip6
  [ -e "$STATE/before/$1-tables" ] || return 0
  ! grep -qx "$2" "$STATE/before/$1-tables" || return 0
  [[ $("$1" -V) == *nf_tables* ]] || return 0
  if "$1-save" -t "$2" | grep -E '^-A|^:[^ ]+ (-|DROP)' >/dev/null; then return 0; fi
  nft delete table "$nft_family" "$2"
}

restore_sysctls() {
  [ -s "$STATE/before/sysctls" ] || return 0
  local name value
  while read -r name _ value; do
    [ "$(sysctl -n "$name" 2>/dev/null)" = "$value" ] || sysctl -qw "$name=$value" || true
  done <"$STATE/before/sysctls"
}

# Records of pods that ended unseen, known by the paths in them; then sockets and folders that were not there before.
remove_shared_leftovers() {
  local record
  for record in /var/lib/cni/results/* /run/containerd/runc/k8s.io/*/state.json; do
    if grep -qsF "$STATE/" "$record"; then rm -f "$record"; fi
  done
  local folder
  while read -r folder; do
    [ -d "$folder" ] || continue
    if [ "$folder" = /run/netns ] && mountpoint -q "$folder"; then umount "$folder" || true; fi
    find "$folder" -depth \( -type d -empty -o -type s -o -type l \) -delete 2>/dev/null || true
  done < <(cat "$STATE/before/absent-folders" 2>/dev/null || true)
}

remove_state() {
  rm -rf --one-file-system "${STATE:?}" || { unmount_all; rm -rf --one-file-system "$STATE"; }
}

nothing_is_ours() {
  [ ! -d "$STATE" ] && ! ip link show "$BRIDGE" >/dev/null 2>&1 && [ -z "$(our_cgroups)" ]
}

clean_up() {
  end_processes
  unmount_all
  remove_interfaces
  remove_chains
  remove_cgroups
  restore_sysctls
  remove_shared_leftovers
  remove_state
}
