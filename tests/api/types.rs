//! Nothing that users or KubeRay write is lost on its way through the types, and nothing odd makes them unreadable.

use std::path::{Path, PathBuf};

use ray_operator::api::{RayCluster, RayCronJob, RayJob, RayService};
use serde_json::{Value, json};

fn documents(folder: &str) -> Vec<(PathBuf, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder);
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    let mut out = Vec::new();
    for path in files {
        let text = std::fs::read_to_string(&path).unwrap();
        let documents: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
        out.extend(documents.into_iter().map(|d| (path.clone(), d)));
    }
    out
}

fn through_the_type(document: &Value) -> Option<Value> {
    fn pass<T: serde::de::DeserializeOwned + serde::Serialize>(document: &Value) -> Option<Value> {
        Some(serde_json::to_value(serde_json::from_value::<T>(document.clone()).unwrap()).unwrap())
    }
    match document["kind"].as_str().unwrap() {
        "RayCluster" => pass::<RayCluster>(document),
        "RayJob" => pass::<RayJob>(document),
        "RayService" => pass::<RayService>(document),
        "RayCronJob" => pass::<RayCronJob>(document),
        _ => None,
    }
}

/// Where `after` lacks or changes what `before` says. A number may become its text (quantities).
fn lost(before: &Value, after: &Value, at: &str, out: &mut Vec<String>) {
    match (before, after) {
        (Value::Object(b), Value::Object(a)) => {
            for (key, value) in b {
                lost(value, a.get(key).unwrap_or(&Value::Null), &format!("{at}.{key}"), out);
            }
        }
        (Value::Array(b), Value::Array(a)) if a.len() == b.len() => {
            for (i, (b, a)) in b.iter().zip(a).enumerate() {
                lost(b, a, &format!("{at}[{i}]"), out);
            }
        }
        (Value::Number(b), Value::String(a)) if b.to_string() == *a => {}
        (Value::Number(b), Value::Number(a)) if b.as_f64() == a.as_f64() => {}
        _ if before == after => {}
        _ => out.push(format!("{at}: {before} became {after}")),
    }
}

#[test]
fn nothing_is_lost() {
    let mut seen = 0;
    for folder in ["fixtures/kuberay-1.7", "samples", "admission/accepted"] {
        for (path, mut before) in documents(folder) {
            before["apiVersion"] = "ray.io/v1".into();
            let Some(after) = through_the_type(&before) else { continue };
            seen += 1;
            let mut out = Vec::new();
            lost(&before, &after, "", &mut out);
            assert!(out.is_empty(), "{}: {out:#?}", path.display());
            assert_eq!(through_the_type(&after).unwrap(), after, "a second pass changes something");
        }
    }
    assert!(seen > 25, "only {seen} objects of ours were found");
}

#[test]
fn odd_objects_stay_readable() {
    for document in [
        json!({"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "x"}}),
        json!({"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": "x"}}),
        json!({"apiVersion": "ray.io/v1", "kind": "RayService", "metadata": {"name": "x"}, "spec": {}}),
        json!({"apiVersion": "ray.io/v1", "kind": "RayCronJob", "metadata": {"name": "x"}, "spec": {}}),
        json!({"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "x"}, "spec": {
            "headGroupSpec": {"headService": {"apiVersion": "v2", "kind": "Thing"}},
            "workerGroupSpecs": [{}, {"replicas": -1, "template": {"spec": {}}}],
            "upgradeStrategy": {"type": "OfTomorrow"}, "fieldOfTomorrow": 1}}),
    ] {
        through_the_type(&document).unwrap();
    }
}
