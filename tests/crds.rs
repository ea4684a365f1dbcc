//! `crds/` holds what the code generates. `UPDATE_CRDS=1 cargo test --test crds` writes it anew.

use std::path::Path;

use ray_operator::api::crd::yaml_files;

#[test]
fn committed_files_are_what_the_code_generates() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("crds");
    for (name, text) in yaml_files() {
        let path = folder.join(&name);
        if std::env::var_os("UPDATE_CRDS").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(committed == text, "crds/{name} differs from the code: run UPDATE_CRDS=1 cargo test --test crds");
    }
}
