# shellcheck shell=bash
# What comes from the distribution, and how it is installed.

missing_packages() { # missing_packages PACKAGE:COMMAND-OR-PATH...
  local pair
  for pair in "$@"; do
    case ${pair#*:} in
      /*) [ -e "${pair#*:}" ] || echo "${pair%%:*}" ;;
      *) command -v "${pair#*:}" >/dev/null || echo "${pair%%:*}" ;;
    esac
  done
}

# Some of these packages start a service on a machine with an init system; policy-rc.d is how Debian lets us say no.
install_packages() { # install_packages PACKAGE...
  command -v apt-get >/dev/null || die "missing packages: $* (install them; there is no apt-get here to do it)"
  local policy=/usr/sbin/policy-rc.d ours=
  if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
    ours=1
  fi
  local code=0
  export DEBIAN_FRONTEND=noninteractive
  apt-get install -y --no-install-recommends "$@" ||
    { apt-get update && apt-get install -y --no-install-recommends "$@"; } || code=$?
  [ -z "$ours" ] || rm -f "$policy"
  return "$code"
}

packages_for_build() {
  missing_packages debootstrap:debootstrap debian-archive-keyring:/usr/share/keyrings/debian-archive-keyring.gpg \
    redis-tools:redis-check-rdb gcc:gcc libc6-dev:/usr/include/stdio.h openssl:openssl
}

packages_for_node() {
  missing_packages runc:runc conntrack:conntrack iptables:iptables socat:socat iproute2:ip procps:sysctl \
    util-linux:flock mount:umount nftables:nft openssl:openssl kmod:modprobe
}

# For tests: they run these beside the cluster, on ports of their own.
packages_for_tests() {
  missing_packages redis-server:redis-server prometheus:prometheus
}
