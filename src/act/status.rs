//! Writes the difference between the old status and the new one, and nothing when there is none.

use std::time::Duration;

use kube::Client;
use kube::api::{Patch, PatchParams};
use kube::core::Request;
use serde_json::{Map, Value, json};

use super::refusal::Refusal;
use crate::api::names::FIELD_MANAGER;
use crate::api::raycluster::{RayCluster, RayClusterStatus};
use crate::observe::seen::FailureKind;

const DEADLINE: Duration = Duration::from_secs(30);

/// Patches the status of a cluster. A merge patch of the difference needs no resource version, so it conflicts with
/// nobody; the uid makes sure that it never lands on a successor of the same name.
///
/// Returns the object as it is now, or `None` when nothing differed.
pub async fn write(
    client: &Client,
    cluster: &RayCluster,
    status: &RayClusterStatus,
) -> Result<Option<RayCluster>, Refusal> {
    let old = cluster.status.as_ref().map_or_else(|| json!({}), |s| json!(s));
    let Some(difference) = difference(&old, &json!(status)) else { return Ok(None) };
    let patch = json!({ "metadata": { "uid": cluster.metadata.uid }, "status": difference });
    let namespace = cluster.metadata.namespace.as_deref().unwrap_or_default();
    let name = cluster.metadata.name.as_deref().unwrap_or_default();
    let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    let request = Request::new(format!("/apis/ray.io/v1/namespaces/{namespace}/rayclusters"))
        .patch_subresource("status", name, &params, &Patch::Merge(&patch))
        .map_err(|e| Refusal::new(FailureKind::Invalid, e.to_string()))?;
    let answer = tokio::time::timeout(DEADLINE, client.request::<RayCluster>(request)).await;
    match answer {
        Ok(Ok(mut now)) => {
            now.metadata.managed_fields = None;
            Ok(Some(now))
        }
        // Deleted meanwhile: there is nobody left to tell.
        Ok(Err(kube::Error::Api(status))) if status.is_not_found() => Ok(None),
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Err(Refusal::new(FailureKind::Unavailable, format!("no answer within {} s", DEADLINE.as_secs()))),
    }
}

/// The JSON merge patch (RFC 7386) that makes `old` into `new`; `None` when they are equal.
pub fn difference(old: &Value, new: &Value) -> Option<Value> {
    if old == new {
        return None;
    }
    let (Value::Object(before), Value::Object(after)) = (old, new) else { return Some(new.clone()) };
    let mut patch = Map::new();
    for key in before.keys().filter(|k| !after.contains_key(*k)) {
        patch.insert(key.clone(), Value::Null);
    }
    for (key, value) in after {
        match before.get(key) {
            None => {
                patch.insert(key.clone(), value.clone());
            }
            Some(was) => {
                if let Some(change) = difference(was, value) {
                    patch.insert(key.clone(), change);
                }
            }
        }
    }
    Some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_patch_holds_the_difference_only() {
        let old = json!({"a": 1, "b": {"c": 1, "d": 2}, "gone": true, "list": [1, 2]});
        let new = json!({"a": 1, "b": {"c": 1, "d": 3}, "list": [1, 2, 3], "fresh": {"x": "y"}});
        let expected = json!({"b": {"d": 3}, "gone": null, "list": [1, 2, 3], "fresh": {"x": "y"}});
        assert_eq!(difference(&old, &new), Some(expected));
        assert_eq!(difference(&new, &new), None);
    }
}
