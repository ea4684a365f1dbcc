//! Given these objects, what is done and said? A file in `given/` is a case: YAML as `kubectl get -o yaml` prints it,
//! so that a bug report becomes one by pasting. The answers stand in `snapshots/plan__<case>.snap`. A Service whose
//! `ray.io/applied-hash` is that of today's wish is as it should be: when the wish changes, it changes in all files.

use std::path::{Path, PathBuf};

use ray_operator::api::RayCluster;
use ray_operator::offline::{Given, plan_given};
use ray_operator::plan::build::{Identity, head_pod, worker_pod};
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
        let mut given = Given::default();
        given.read(&file, &std::fs::read_to_string(&file).unwrap()).unwrap();
        if !name.starts_with("made_by") {
            mark_as_ours(&mut given);
        }
        let plan = plan_given(&given, &PlanConfig::default(), now);
        insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false, snapshot_path => "snapshots" }, {
            insta::assert_snapshot!(format!("plan__{name}"), plan);
        });
    }
}

/// Pods that do not say what they were made from get the marks of the template that the case gives.
fn mark_as_ours(given: &mut Given) {
    let Some(cluster) = given.clusters.first().cloned() else { return };
    for pod in &mut given.pods {
        for (key, value) in marks(&cluster, pod.label("ray.io/group")) {
            pod.meta.annotations.entry(key).or_insert(value);
        }
    }
}

fn marks(cluster: &RayCluster, group: &str) -> Vec<(String, String)> {
    let config = PlanConfig::default();
    let group = cluster.spec.groups().iter().find(|g| g.group_name == group);
    let made = match group {
        Some(group) => worker_pod(cluster, group, Identity::default(), &config),
        None => head_pod(cluster, Identity::default(), &config),
    };
    let all = made.pod.metadata.annotations.unwrap_or_default();
    all.into_iter().filter(|(k, _)| k.ends_with("template-parts") || k.ends_with("recreate-hash")).collect()
}
