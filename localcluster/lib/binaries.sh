# shellcheck shell=bash
# Everything built from Go, each in the cache under a key of its recipe: a fresh clone on a warm machine builds nothing.

key_of() { # key_of FILE...: what the files say, not where they are
  cat "$@" | sha256sum | cut -c1-12
}

BUILDS="localkube containerd cni coredns helm"

module_of() { if [ "$1" = localkube ]; then echo "$HERE/localkube"; else echo "$HERE/tools/$1"; fi; }

built() { # built NAME: the folder that holds its binaries
  local module
  module=$(module_of "$1")
  local files=("$module"/go.mod "$module"/go.sum)
  [ "$1" != localkube ] || files+=("$module"/*.go)
  echo "$CACHE/$1-$(key_of "${files[@]}")-$(uname -m)"
}
is_built() { [ -d "$(built "$1")" ]; }

pinned() { # pinned NAME PATH-OF-MODULE: the version that go.mod asks for
  awk -v path="$2" '$1 == path && $2 ~ /^v/ { print $2; exit } $1 == "require" && $2 == path { print $3; exit }' \
    "$(module_of "$1")/go.mod"
}
version_of() {
  case $1 in
    localkube) pinned localkube k8s.io/kubernetes ;;
    containerd) pinned containerd github.com/containerd/containerd/v2 ;;
    cni) pinned cni github.com/containernetworking/plugins ;;
    coredns) pinned coredns github.com/coredns/coredns ;;
    helm) pinned helm helm.sh/helm/v3 ;;
  esac
}
title_of() {
  case $1 in
    localkube) echo "Kubernetes $(version_of localkube)" ;;
    cni) echo "CNI plugins $(version_of cni)" ;;
    *) echo "$1 $(version_of "$1")" ;;
  esac
}
expected_seconds_of() { # measured on two cores, nothing cached
  case $1 in
    localkube) echo 260 ;;
    containerd) echo 80 ;;
    cni) echo 8 ;;
    coredns) echo 95 ;;
    helm) echo 55 ;;
  esac
}

need_go() {
  need_tool go "Go $(awk '$1 == "go" { print $2 }' "$HERE/localkube/go.mod") or newer, from go.dev or your distribution"
}

build() { one_by_one "$1" build_alone "$1"; } # build NAME
build_alone() {
  local target unfinished
  ! is_built "$1" || return 0
  target=$(built "$1")
  unfinished=$target.unfinished.$$
  rm -rf "$CACHE/$1"-*.unfinished.*
  mkdir -p "$unfinished"
  (
    cd "$(module_of "$1")" || return
    export GOFLAGS="-mod=readonly -buildvcs=false"
    case $1 in
      localkube) go build -ldflags "-s -w $(kubernetes_version_flags)" -o "$unfinished/localkube" . ;;
      containerd) go build -tags "no_btrfs no_devmapper no_zfs" -ldflags "-s -w" -o "$unfinished/" tool ;;
      *) go build -ldflags "-s -w" -o "$unfinished/" tool ;;
    esac
  )
  if [ "$1" = localkube ]; then ln -s localkube "$unfinished/kubectl"; fi
  rm -rf "$target"
  mv "$unfinished" "$target"
}

# Kubernetes' own build says its version this way; without it the API server says v0.0.0 and Helm refuses charts.
kubernetes_version_flags() {
  local version package
  version=$(version_of localkube)
  for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    printf -- '-X %s.gitVersion=%s ' "$package" "$version"
    printf -- '-X %s.gitMajor=%s ' "$package" "$(cut -d. -f1 <<<"${version#v}")"
    printf -- '-X %s.gitMinor=%s -X %s.gitTreeState=clean ' "$package" "$(cut -d. -f2 <<<"$version")" "$package"
  done
}

link_binaries() {
  rm -rf "${STATE:?}/bin"
  mkdir -p "$STATE/bin"
  local name
  for name in $BUILDS; do
    [ "$name" = cni ] || ln -s "$(built "$name")"/* "$STATE/bin/"
  done
}
