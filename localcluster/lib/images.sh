# shellcheck shell=bash
# Images are made here and imported: no registry is asked. Each is an archive in the cache under a key of its recipe.

# shellcheck source=../images/recipes.sh
source "$HERE/images/recipes.sh"

IMAGES="pause redis ray"

image_archive() { # image_archive NAME
  local recipes=$HERE/images/recipes.sh
  case $1 in
    pause) echo "$CACHE/image-pause-$(key_of "$recipes" "$HERE/images/pause/pause.c").tar" ;;
    redis) echo "$CACHE/image-redis-$(key_of "$recipes" <(echo "$REDIS_TAGS")).tar" ;;
    ray) echo "$CACHE/image-ray-$(key_of "$HERE"/images/ray/* <(echo "$DEBIAN_RELEASE $RAY_IMAGE")).tar" ;;
  esac
}
image_seconds() {
  case $1 in ray) echo 90 ;; *) echo 3 ;; esac
}
image_is_made() { [ -f "$(image_archive "$1")" ]; }

make_image() { # make_image NAME
  local archive
  archive=$(image_archive "$1")
  rm -rf "$CACHE/image-$1".unfinished.*
  local root=$CACHE/image-$1.unfinished.$$
  mkdir -p "$root"
  "recipe_$1" "$root" "$root.tar"
  mv "$root.tar" "$archive"
  rm -rf --one-file-system "$root"
  forget_old_archives "$1" 2
}

forget_old_archives() { # forget_old_archives NAME HOW-MANY-TO-KEEP
  find "$CACHE" -maxdepth 1 -name "image-$1-*.tar" -printf '%T@ %p\n' | sort -rn | sed "1,$2d; s/^[^ ]* //" | xargs -r rm -f
}

pack_image() { # pack_image ROOT ARCHIVE CONFIG-JSON TAG...
  local root=$1 archive=$2 config=$3 work architecture=amd64
  shift 3
  [ "$(uname -m)" = x86_64 ] || architecture=arm64
  work=$archive.packing
  rm -rf "$work"
  mkdir -p "$work"
  tar --numeric-owner --sort=name --exclude=./var/cache/apt --exclude=./var/lib/apt/lists --exclude='./proc/*' \
    -C "$root" -cf "$work/layer.tar" .
  local layer
  layer=$(sha256sum "$work/layer.tar" | cut -d' ' -f1)
  printf '{"architecture":"%s","os":"linux","config":%s,"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' \
    "$architecture" "$config" "$layer" >"$work/config.json"
  printf '[{"Config":"config.json","RepoTags":[%s],"Layers":["layer.tar"]}]' \
    "$(printf '"%s",' "$@" | sed 's/,$//')" >"$work/manifest.json"
  tar -C "$work" -cf "$archive" manifest.json config.json layer.tar
  rm -rf "$work"
}

# The container runtime keeps its images in the cache from one cluster to the next. A mark tells which archive it has.
image_store() { echo "$CACHE/image-store-$(version_of containerd)"; }
image_mark() { echo "$(image_store)/imported/$(basename "$1" .tar)"; }
image_is_imported() { [ -e "$(image_mark "$1")" ]; }

import_image() { # import_image ARCHIVE
  containers images import --local "$1"
  mkdir -p "$(image_store)/imported"
  local name
  name=$(basename "$1")
  rm -f "$(image_store)/imported/${name%-*}"-*
  touch "$(image_mark "$1")"
}

import_images() {
  local name archive
  for name in $IMAGES; do
    archive=$(image_archive "$name")
    image_is_imported "$archive" || import_image "$archive"
  done
}
