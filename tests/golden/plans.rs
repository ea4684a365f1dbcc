//! Given these objects, what is done and said? A file in `given/` is a case: YAML as `kubectl get -o yaml` prints it,
//! so that a bug report becomes one by pasting. The answers stand in `snapshots/plan__<case>.snap`.

use std::path::{Path, PathBuf};

use ray_operator::offline::plan_files;
use ray_operator::plan::config::PlanConfig;

#[test]
fn given_objects_lead_to_plans() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/given");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    assert!(files.len() > 15, "cases");
    let now = "2026-01-01T01:00:00Z".parse().unwrap();
    for file in files {
        let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
        let plan = plan_files(std::slice::from_ref(&file), &PlanConfig::default(), now).unwrap();
        insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false, snapshot_path => "snapshots" }, {
            insta::assert_snapshot!(format!("plan__{name}"), plan);
        });
    }
}
