# shellcheck shell=bash
# The operator's image: built by cargo, packed and imported only when the binary is another one than last time.

operator_version() { sed -n 's/^version = "\(.*\)"/\1/p' "$REPOSITORY/Cargo.toml" | head -n 1; }

cargo_target_folder() {
  (cd "$REPOSITORY" && cargo metadata --format-version 1 --no-deps --offline) |
    sed 's/.*"target_directory":"\([^"]*\)".*/\1/'
}
operator_binary() { echo "$(cargo_target_folder)/release/ray-operator"; }

build_operator() {
  cd "$REPOSITORY" || return
  cargo build --release --locked --bin ray-operator
}

# A tag made from the binary changes exactly when it does, so that Helm rolls the Deployment when there is a reason.
operator_key() { sha256sum "$(operator_binary)" | cut -c1-12; }
operator_tag() { echo "sha-$(operator_key)"; }
operator_archive() { echo "$CACHE/image-operator-$(operator_key).tar"; }

make_operator_image() { one_by_one image-operator make_operator_image_alone; }
make_operator_image_alone() {
  local archive root
  archive=$(operator_archive)
  if [ ! -f "$archive" ]; then
    root=$CACHE/image-operator.unfinished.$$
    rm -rf "$CACHE"/image-operator.unfinished.*
    mkdir -p "$root"
    recipe_operator "$root" "$root.tar" "$(operator_binary)" \
      "$OPERATOR_IMAGE:$(operator_version)" "$OPERATOR_IMAGE:dev" "$OPERATOR_IMAGE:$(operator_tag)"
    mv "$root.tar" "$archive"
    rm -rf "$root"
    forget_old_archives operator 5
  fi
  case $CLUSTER in
    local) image_is_imported "$archive" || import_image "$archive" ;;
    kind) kind load image-archive "$archive" --name "$KIND_NAME" ;;
  esac
}
