# shellcheck shell=bash
# What is in the small images. Each recipe fills a root directory and packs it. The Ray image has a folder of its own.

# shellcheck source=ray/recipe.sh
source "$HERE/images/ray/recipe.sh"

copy_with_libraries() { # copy_with_libraries ROOT PROGRAM [NAME-INSIDE]
  local root=$1 program=$2 inside=${3:-$2} library
  mkdir -p "$root$(dirname "$inside")"
  cp -L "$program" "$root$inside"
  ldd "$program" | grep -oE '/[^ ]+' | while read -r library; do
    mkdir -p "$root$(dirname "$library")"
    [ -e "$root$library" ] || cp -L "$library" "$root$library"
  done
}

recipe_pause() { # recipe_pause ROOT ARCHIVE
  gcc -static -Os -s -Wall -o "$1/pause" "$HERE/images/pause/pause.c"
  pack_image "$1" "$2" '{"Entrypoint":["/pause"],"User":"65535:65535"}' "$PAUSE_IMAGE"
}

# Debian's redis-server is redis-check-rdb under another name: taking it from redis-tools starts no service here.
recipe_redis() { # recipe_redis ROOT ARCHIVE
  local program tags=() tag
  for program in redis-cli sh bash ls cat sleep; do
    copy_with_libraries "$1" "$(command -v $program)" "/usr/bin/$program"
  done
  copy_with_libraries "$1" "$(command -v redis-check-rdb)" /usr/bin/redis-server
  ln -s usr/bin "$1/bin"
  mkdir -p "$1/etc" "$1/tmp" "$1/data"
  chmod 1777 "$1/tmp" "$1/data"
  printf 'root:x:0:0::/:/bin/sh\nredis:x:999:999::/data:/bin/sh\n' >"$1/etc/passwd"
  for tag in ${REDIS_TAGS//,/ }; do tags+=("docker.io/library/redis:$tag"); done
  pack_image "$1" "$2" \
    '{"Env":["PATH=/usr/bin"],"WorkingDir":"/data","Cmd":["redis-server","--protected-mode","no"]}' "${tags[@]}"
}

recipe_operator() { # recipe_operator ROOT ARCHIVE BINARY TAG...
  local root=$1 archive=$2 binary=$3
  shift 3
  copy_with_libraries "$root" "$binary" /ray-operator
  mkdir -p "$root/etc/ssl/certs" "$root/tmp"
  chmod 1777 "$root/tmp"
  printf 'root:x:0:0::/:/sbin/nologin\nnonroot:x:65532:65532::/tmp:/sbin/nologin\n' >"$root/etc/passwd"
  printf 'root:x:0:\nnonroot:x:65532:\n' >"$root/etc/group"
  printf 'hosts: files dns\n' >"$root/etc/nsswitch.conf"
  [ ! -e /etc/ssl/certs/ca-certificates.crt ] || cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
  pack_image "$root" "$archive" '{"Entrypoint":["/ray-operator"],"User":"65532:65532","WorkingDir":"/"}' "$@"
}
