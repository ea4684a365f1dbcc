//! What do the CRDs accept, and is anything lost on the way through them?

use std::path::PathBuf;

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::bench::{Bench, objects, repository, run};

/// The documents of each file of a folder under `tests/`.
fn documents(folder: &str) -> Vec<(PathBuf, String, Vec<Value>)> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(repository().join("tests").join(folder))
        .unwrap_or_else(|e| panic!("tests/{folder}: {e}"))
        .map(|f| f.expect("a file").path())
        .filter(|p| p.extension().is_some_and(|e| e == "yaml"))
        .collect();
    files.sort();
    files
        .into_iter()
        .map(|path| {
            let text = std::fs::read_to_string(&path).expect("a file");
            let all = serde_saphyr::from_multiple(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            (path, text, all)
        })
        .collect()
}

async fn remove(bench: &Bench, object: &Value) {
    let api = objects::api(bench.client(), &bench.namespace, object);
    objects::delete(&api, object["metadata"]["name"].as_str().expect("a name")).await;
}

fn ours(document: &Value) -> bool {
    document["apiVersion"].as_str().is_some_and(|v| v.starts_with("ray.io/"))
}

/// Paths at which `after` lacks or changes what `before` has.
fn lost(before: &Value, after: &Value, at: &str, out: &mut Vec<String>) {
    match (before, after) {
        (Value::Object(b), Value::Object(a)) => {
            for (key, value) in b {
                lost(value, a.get(key).unwrap_or(&Value::Null), &format!("{at}.{key}"), out);
            }
        }
        (Value::Array(b), Value::Array(a)) if b.len() == a.len() => {
            for (i, (b, a)) in b.iter().zip(a).enumerate() {
                lost(b, a, &format!("{at}[{i}]"), out);
            }
        }
        (Value::Number(b), Value::Number(a)) if b.as_f64() == a.as_f64() => {}
        _ if before == after => {}
        _ => out.push(format!("{at}: {before} became {after}")),
    }
}

#[test]
fn what_should_be_refused_is_refused_in_the_words_that_its_file_says() {
    run(async {
        let bench = Bench::new("admission-refused").await;
        let (mut seen, mut wrong) = (0, Vec::new());
        for (path, text, all) in documents("admission/refused") {
            let file = path.file_name().expect("a name").to_string_lossy().into_owned();
            let wanted = text
                .lines()
                .next()
                .and_then(|l| l.strip_prefix("# refused: "))
                .unwrap_or_else(|| panic!("{file}: no wish"));
            // The last document is refused; what stands before it is the object as it was.
            let (last, before) = all.split_last().expect("a document");
            for document in before {
                bench.apply(document).await;
            }
            match objects::try_apply(bench.client(), &bench.namespace, last, "tests").await {
                Ok(_) => {
                    wrong.push(format!("{file}: accepted"));
                    remove(&bench, last).await;
                }
                Err(kube::Error::Api(status)) if status.message.contains(wanted) => {}
                Err(error) => wrong.push(format!("{file}: wanted {wanted:?}, but it says {error}")),
            }
            for document in before {
                if objects::api(bench.client(), &bench.namespace, document)
                    .get_opt(document["metadata"]["name"].as_str().expect("a name"))
                    .await
                    .is_ok_and(|found| found.is_some())
                {
                    remove(&bench, document).await;
                }
            }
            seen += 1;
        }
        assert!(wrong.is_empty(), "{} of {seen}:\n{}", wrong.len(), wrong.join("\n"));
        assert!(seen > 80, "only {seen} files");
    });
}

#[test]
fn what_should_be_accepted_is_accepted_and_nothing_is_lost() {
    run(async {
        let bench = Bench::new("admission-accepted").await;
        let (mut seen, mut wrong) = (0, Vec::new());
        let mut all: Vec<_> = documents("admission/accepted");
        all.extend(documents("samples"));
        for (path, _, list) in all {
            for mut document in list.into_iter().filter(ours) {
                document["metadata"].as_object_mut().expect("metadata").remove("namespace");
                match objects::try_apply(bench.client(), &bench.namespace, &document, "tests").await {
                    Err(error) => wrong.push(format!("{}: {error}", path.display())),
                    Ok(made) => {
                        lost(&document["spec"], &made["spec"], &format!("{} spec", path.display()), &mut wrong);
                        remove(&bench, &document).await;
                    }
                }
                seen += 1;
            }
        }
        assert!(wrong.is_empty(), "{} of {seen}:\n{}", wrong.len(), wrong.join("\n"));
        assert!(seen >= 10, "only {seen} objects");
    });
}

#[test]
fn both_versions_show_the_same_object() {
    run(async {
        let bench = Bench::new("admission-versions").await;
        let (mut seen, mut wrong) = (0, Vec::new());
        for (path, _, list) in documents("samples") {
            for mut document in list.into_iter().filter(ours) {
                // RayCronJob has one version.
                if document["kind"] == "RayCronJob" {
                    continue;
                }
                document["metadata"].as_object_mut().expect("metadata").remove("namespace");
                let name = document["metadata"]["name"].as_str().expect("a name").to_owned();
                let kind = document["kind"].as_str().expect("a kind").to_owned();
                document["apiVersion"] = "ray.io/v1alpha1".into();
                bench.apply(&document).await;
                let new = objects::kind(bench.client(), &bench.namespace, "ray.io/v1", &kind)
                    .get(&name)
                    .await
                    .expect("as v1");
                let old = objects::kind(bench.client(), &bench.namespace, "ray.io/v1alpha1", &kind)
                    .get(&name)
                    .await
                    .expect("as v1alpha1");
                assert_eq!(new.data["spec"], old.data["spec"], "{}", path.display());
                lost(&document["spec"], &new.data["spec"], &format!("{} spec", path.display()), &mut wrong);
                remove(&bench, &document).await;
                seen += 1;
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        assert!(seen >= 5, "only {seen} objects");
    });
}

#[test]
fn a_typing_error_is_refused_when_one_asks_for_strictness() {
    run(async {
        let bench = Bench::new("admission-strict").await;
        let mut object = crate::bench::cluster("one", &[("w", 1)]);
        object["spec"]["workerGroupSpecs"][0]["replicsa"] = 1.into();
        let refused = objects::try_apply(bench.client(), &bench.namespace, &object, "tests").await;
        let error = refused.expect_err("a typing error").to_string();
        assert!(error.contains("replicsa"), "{error}");
        // And in a pod template, where the schema is Kubernetes' own.
        let mut object = crate::bench::cluster("one", &[("w", 1)]);
        object["spec"]["headGroupSpec"]["template"]["spec"]["nodeSelectr"] = json!({"a": "b"});
        let refused = objects::try_apply(bench.client(), &bench.namespace, &object, "tests").await;
        let error = refused.expect_err("a typing error").to_string();
        assert!(error.contains("nodeSelectr"), "{error}");
    });
}

#[test]
fn two_managers_of_one_object_keep_each_others_list_entries() {
    run(async {
        let bench = Bench::new("admission-managers").await;
        let object = crate::bench::cluster("one", &[("w", 1)]);
        bench.apply(&object).await;
        // Another tool adds a variable to the Ray container, and a container of its own.
        let theirs = json!({
            "apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "one"},
            "spec": {"headGroupSpec": {"template": {"spec": {"containers": [
                {"name": "ray", "env": [{"name": "THEIRS", "value": "1"}]},
                {"name": "sidecar", "image": "registry.test/sidecar:a"},
            ]}}}},
        });
        let params = PatchParams::apply("another-tool").validation_strict();
        let made = bench.clusters().patch("one", &params, &Patch::Apply(&theirs)).await.expect("no conflict");
        let containers = made.data["spec"]["headGroupSpec"]["template"]["spec"]["containers"].clone();
        assert_eq!(containers.as_array().map(Vec::len), Some(2), "{containers}");
        assert_eq!(containers[0]["image"], "registry.test/ray:a");
        assert_eq!(containers[0]["env"][0]["name"], "THEIRS");

        // The first manager applies again, with a variable of its own: the other's stays.
        let mut again = object.clone();
        again["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["env"] =
            json!([{"name": "OURS", "value": "2"}]);
        let made = bench.apply(&again).await;
        let containers = &made["spec"]["headGroupSpec"]["template"]["spec"]["containers"];
        let env: Vec<&str> =
            containers[0]["env"].as_array().into_iter().flatten().filter_map(|e| e["name"].as_str()).collect();
        assert!(env.contains(&"OURS") && env.contains(&"THEIRS"), "{env:?}");
        assert_eq!(containers.as_array().map(Vec::len), Some(2), "{containers}");
    });
}
