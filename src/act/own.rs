//! Writes to the metadata of the RayCluster itself: its finalizers.

use kube::Client;
use kube::api::{Patch, PatchParams};
use kube::core::Request;

use super::hands::Effect;
use super::refusal::Refusal;
use crate::api::RayCluster;
use crate::api::names::FIELD_MANAGER;
use crate::observe::seen::FailureKind;
use crate::observe::watch::Clusters;
use crate::plan::Manifest;

/// Patches exactly the version that the plan was made for. When there is a newer one, that is fetched and nothing is
/// written: the next plan is made for it. An object that is gone, or whose name another one bears, needs nothing any more.
pub(super) async fn patch(client: &Client, clusters: &Clusters, manifest: &Manifest) -> Result<Effect, Refusal> {
    let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    let request = Request::new(manifest.kind.path(&manifest.namespace));
    let patch = request.patch(&manifest.name, &params, &Patch::Merge(&manifest.value)).map_err(unfit)?;
    match client.request::<RayCluster>(patch).await {
        Ok(now) => {
            answered(clusters, now);
            Ok(Effect::Made)
        }
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(Effect::Outdated { newer: false }),
        Err(kube::Error::Api(status)) if status.is_conflict() => {
            let get = request.get(&manifest.name, &Default::default()).map_err(unfit)?;
            match client.request::<RayCluster>(get).await {
                Ok(now) => {
                    let newer = now.metadata.uid.as_deref() == manifest.value["metadata"]["uid"].as_str();
                    answered(clusters, now);
                    Ok(Effect::Outdated { newer })
                }
                Err(kube::Error::Api(status)) if status.is_not_found() => Ok(Effect::Outdated { newer: false }),
                Err(error) => Err(error.into()),
            }
        }
        Err(error) => Err(error.into()),
    }
}

fn answered(clusters: &Clusters, mut now: RayCluster) {
    now.metadata.managed_fields = None;
    clusters.answered(now);
}

fn unfit(error: kube::core::request::Error) -> Refusal {
    Refusal::new(FailureKind::Invalid, error.to_string())
}
