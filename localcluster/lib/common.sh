# shellcheck shell=bash disable=SC2034
# Where things are, and how we speak to the user. Every command sources this file first.
set -euo pipefail

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
REPOSITORY=$(dirname "$HERE")
CACHE=${RAY_OPERATOR_CACHE:-${XDG_CACHE_HOME:-${HOME:?}/.cache}/ray-operator}/localcluster
STATE=${LOCALCLUSTER_STATE:-${XDG_STATE_HOME:-$HOME/.local/state}/ray-operator/localcluster}
LOGS=$CACHE/logs
CLUSTER=${CLUSTER:-local}
export PATH=$STATE/bin:$PATH:/usr/local/sbin:/usr/sbin:/sbin

# shellcheck source=../versions.env
source "$HERE/versions.env"

first_address_of() { # the address after the network's own: 10.0.0.0/8 -> 10.0.0.1
  local network=${1%/*}
  echo "${network%.*}.$((${network##*.} + 1))"
}
NODE_IP=$(first_address_of "$POD_CIDR")
API_SERVICE_IP=$(first_address_of "$SERVICE_CIDR")
CONTAINERD_SOCKET=$STATE/containerd/containerd.sock

say() { printf '%s\n' "$*"; }
warn() { printf 'warning: %s\n' "$*" >&2; }
die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

need_root() {
  [ "$(id -u)" = 0 ] || die "a node needs root: run this as root, or use CLUSTER=current or CLUSTER=kind"
}

need_tool() { # need_tool NAME HOW-TO-GET-IT
  command -v "$1" >/dev/null || die "missing tool: $1 ($2)"
}

only_one_at_a_time() {
  mkdir -p "$(dirname "$STATE")"
  exec 9>"$STATE.lock"
  flock -n 9 || die "another up or down is at work on $STATE"
}

one_by_one() { # one_by_one NAME COMMAND...: whoever comes second finds the work of the first in the cache
  mkdir -p "$CACHE"
  (
    flock 8
    shift
    "$@"
  ) 8>"$CACHE/$1.lock"
}

wait_until() { # wait_until SECONDS COMMAND...
  local end=$((SECONDS + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    [ "$SECONDS" -lt "$end" ] || return 1
    sleep 0.2
  done
}

admin() { kubectl --kubeconfig "$STATE/admin.kubeconfig" "$@"; }
containers() { ctr --address "$CONTAINERD_SOCKET" --namespace k8s.io "$@"; }
