//! Reading and writing objects of any kind as plain JSON, as an administrator.

use kube::Client;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::Value;

const CLUSTER_SCOPED: [&str; 7] = [
    "CustomResourceDefinition",
    "Namespace",
    "Node",
    "ClusterRole",
    "ClusterRoleBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
];

/// How objects of a kind are addressed. The plural is the kind's with an s, but for the usual exceptions.
pub fn resource(api_version: &str, kind: &str) -> ApiResource {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let lower = kind.to_lowercase();
    let plural = match lower.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None if lower.ends_with("ss") => format!("{lower}es"),
        None => format!("{lower}s"),
    };
    ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        plural,
    }
}

pub fn kind(client: &Client, namespace: &str, api_version: &str, kind: &str) -> Api<DynamicObject> {
    let resource = resource(api_version, kind);
    if CLUSTER_SCOPED.contains(&kind) {
        return Api::all_with(client.clone(), &resource);
    }
    Api::namespaced_with(client.clone(), namespace, &resource)
}

/// The API of an object's own kind.
pub fn api(client: &Client, namespace: &str, object: &Value) -> Api<DynamicObject> {
    let text = |key: &str| object[key].as_str().unwrap_or_else(|| panic!("an object without {key}: {object}"));
    kind(client, namespace, text("apiVersion"), text("kind"))
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_else(|| panic!("an object without a name: {object}"))
}

/// Server-side apply by the test.
pub async fn apply(client: &Client, namespace: &str, object: &Value) -> Value {
    try_apply(client, namespace, object, "tests").await.unwrap_or_else(|e| panic!("apply {}: {e}", name(object)))
}

/// Server-side apply with strict checks by a manager of one's choice.
pub async fn try_apply(client: &Client, namespace: &str, object: &Value, manager: &str) -> Result<Value, kube::Error> {
    let params = PatchParams::apply(manager).validation_strict().force();
    let made = api(client, namespace, object).patch(name(object), &params, &Patch::Apply(object)).await?;
    Ok(serde_json::to_value(made).expect("JSON"))
}

pub async fn create(client: &Client, namespace: &str, object: &Value) -> Result<Value, kube::Error> {
    let parsed: DynamicObject = serde_json::from_value(object.clone()).expect("an object");
    let made = api(client, namespace, object).create(&PostParams::default(), &parsed).await?;
    Ok(serde_json::to_value(made).expect("JSON"))
}

/// A merge patch.
pub async fn edit(api: &Api<DynamicObject>, name: &str, patch: &Value) -> Value {
    let changed = api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
    serde_json::to_value(changed.unwrap_or_else(|e| panic!("edit {name}: {e}"))).expect("JSON")
}

pub async fn delete(api: &Api<DynamicObject>, name: &str) {
    api.delete(name, &DeleteParams::default()).await.unwrap_or_else(|e| panic!("delete {name}: {e}"));
}
