# shellcheck shell=bash
# Ray as users get it: `ray` on PATH, run by the user `ray` (uid 1000) from its home, with the tools that probes and
# scripts in Ray's YAML call. One setting differs: Ray's dashboard gives up on a part of its own that is not up within
# 30 seconds and never comes back, which a busy machine of two cores can reach; here it waits for two minutes.

RAY_IMAGE_TOOLS=python3,python3-venv,wget,curl,ca-certificates,procps,iproute2,dnsutils,netcat-openbsd

recipe_ray() { # recipe_ray ROOT ARCHIVE
  local root=$1 archive=$2
  debootstrap --variant=minbase --include="$RAY_IMAGE_TOOLS" "$DEBIAN_RELEASE" "$root" ${DEBIAN_MIRROR:+"$DEBIAN_MIRROR"}
  cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
  cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
  cp "$HERE/images/ray/requirements.txt" "$root/tmp/"
  if [ -e /etc/pip.conf ]; then cp -L /etc/pip.conf "$root/etc/"; fi
  in_root "$root" python3 -m venv /opt/ray
  in_root "$root" /opt/ray/bin/pip install --no-cache-dir --no-deps --only-binary=:all: --require-hashes \
    -r /tmp/requirements.txt
  in_root "$root" /opt/ray/bin/pip check
  in_root "$root" useradd -u 1000 -g users -m -s /bin/bash ray
  rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/usr/share/{doc,man,locale} "$root"/tmp/* \
    "$root/etc/pip.conf" "$root/etc/resolv.conf" "$root/etc/hosts"
  pack_image "$root" "$archive" \
    '{"User":"ray","WorkingDir":"/home/ray","Cmd":["/bin/bash"],"Env":["HOME=/home/ray","LANG=C.UTF-8","RAY_DASHBOARD_SUBPROCESS_MODULE_WAIT_READY_TIMEOUT=120","PATH=/opt/ray/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"]}' \
    "$RAY_IMAGE"
}

# Only what pip needs to reach its index passes into the root: the rest of the caller's environment would leak into the image.
in_root() { # in_root ROOT COMMAND...
  local root=$1 name pass=()
  shift
  for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY PIP_INDEX_URL PIP_EXTRA_INDEX_URL \
    PIP_TRUSTED_HOST PIP_CERT PIP_DEFAULT_TIMEOUT; do
    [ -z "${!name:-}" ] || pass+=("$name=${!name}")
  done
  env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 "${pass[@]}" chroot "$root" "$@"
}
