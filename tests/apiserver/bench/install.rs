//! The CRDs, as a user installs them: server-side apply of the files in `crds/`.

use std::path::Path;
use std::time::{Duration, Instant};

use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use serde_json::Value;

pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub async fn crds(client: &Client) {
    let resource = ApiResource {
        group: "apiextensions.k8s.io".into(),
        version: "v1".into(),
        api_version: "apiextensions.k8s.io/v1".into(),
        kind: "CustomResourceDefinition".into(),
        plural: "customresourcedefinitions".into(),
    };
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let mut names = Vec::new();
    for file in std::fs::read_dir(repository().join("crds")).expect("crds/").map(|f| f.expect("a file").path()) {
        if file.extension().is_none_or(|e| e != "yaml") {
            continue;
        }
        let text = std::fs::read_to_string(&file).expect("a CRD");
        let crd: Value = serde_saphyr::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let name = crd["metadata"]["name"].as_str().expect("a name").to_owned();
        let applied = api.patch(&name, &PatchParams::apply("tests"), &Patch::Apply(&crd)).await;
        applied.unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        names.push(name);
    }
    assert!(names.len() >= 4, "CRDs of the four kinds: {names:?}");
    for name in names {
        let limit = Instant::now() + Duration::from_secs(30);
        loop {
            let crd = api.get(&name).await.expect("the CRD just applied");
            let conditions = crd.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
            if conditions.iter().any(|c| c["type"] == "Established" && c["status"] == "True") {
                break;
            }
            assert!(Instant::now() < limit, "{name} is not established: {conditions:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}
