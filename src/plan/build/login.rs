//! Ray's token login (`authOptions`): what a container needs to know the token, and the Secret that holds it.
//!
//! Only what we add and the Ray container get the token: other containers of the user's take it from the Secret if they
//! should have it. Health checks need none (Ray answers `/api/healthz`, `/api/gcs_healthz` and
//! `/api/local_raylet_healthz` to anybody), so probes are as without login.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Container, EnvVar, EnvVarSource, PodSpec, ProjectedVolumeSource, SecretKeySelector, ServiceAccountTokenProjection,
    Volume, VolumeMount, VolumeProjection,
};
use serde_json::json;

use super::child::{child, child_labels};
use super::env::{literal, set_default};
use crate::api::RayCluster;
use crate::api::children::Kind;
use crate::api::names::check_name;
use crate::api::raycluster::AuthOptions;
use crate::plan::Manifest;

/// Under which key a Secret holds the token.
pub const KEY: &str = "auth_token";
const VOLUME: &str = "ray-token";
const PATH: &str = "/var/run/secrets/ray.io/serviceaccount";

/// Where a cluster's token comes from.
enum Token<'a> {
    Secret(&'a str),
    /// A Secret that we make.
    OwnSecret,
    /// Whoever calls shows a token of Kubernetes; Ray asks the API server whose it is.
    Kubernetes,
}

fn token(cluster: &RayCluster) -> Option<Token<'_>> {
    let options = cluster.spec.auth_options.as_ref().filter(|o| o.wants_token())?;
    let AuthOptions { enable_k8s_token_auth, secret_name, .. } = options;
    Some(match secret_name.as_deref().filter(|name| !name.is_empty()) {
        _ if *enable_k8s_token_auth == Some(true) => Token::Kubernetes,
        Some(name) => Token::Secret(name),
        None => Token::OwnSecret,
    })
}

/// Whether every node asks the API server about those who call it.
pub(crate) fn asks_kubernetes(cluster: &RayCluster) -> bool {
    matches!(token(cluster), Some(Token::Kubernetes))
}

/// Name of the Secret that we make: the cluster's, clipped as KubeRay does.
fn own_name(cluster: &RayCluster) -> String {
    check_name(cluster.metadata.name.as_deref().unwrap_or_default())
}

/// The Secret that we make, without the token.
pub(crate) fn secret(cluster: &RayCluster) -> Option<Manifest> {
    matches!(token(cluster)?, Token::OwnSecret).then(|| {
        let body = json!({"type": "Opaque"});
        child(cluster, Kind::Secret, own_name(cluster), child_labels(cluster), BTreeMap::new(), body)
    })
}

/// Lets a container log in, where it does not say itself how to. With tokens of Kubernetes its pod also needs
/// [`add_volume`].
pub(crate) fn add(container: &mut Container, cluster: &RayCluster) {
    let Some(token) = token(cluster) else { return };
    let env = container.env.get_or_insert_default();
    set_default(env, literal("RAY_AUTH_MODE", "token"));
    let secret = match token {
        Token::Secret(name) => name.to_owned(),
        Token::OwnSecret => own_name(cluster),
        Token::Kubernetes => {
            set_default(env, literal("RAY_ENABLE_K8S_TOKEN_AUTH", "true"));
            let mounts = container.volume_mounts.get_or_insert_default();
            if mounts.iter().all(|m| m.name != VOLUME) {
                let (name, mount_path) = (VOLUME.to_owned(), PATH.to_owned());
                mounts.push(VolumeMount { name, mount_path, read_only: Some(true), ..VolumeMount::default() });
            }
            return;
        }
    };
    let key = SecretKeySelector { name: secret, key: KEY.to_owned(), optional: None };
    let source = EnvVarSource { secret_key_ref: Some(key), ..EnvVarSource::default() };
    set_default(env, EnvVar { name: "RAY_AUTH_TOKEN".to_owned(), value: None, value_from: Some(source) });
}

/// The volume with the pod's own token of Kubernetes. A volume of that name is the user's, and is used as it is.
pub(crate) fn add_volume(spec: &mut PodSpec, cluster: &RayCluster) {
    let volumes = spec.volumes.get_or_insert_default();
    if !asks_kubernetes(cluster) || volumes.iter().any(|v| v.name == VOLUME) {
        return;
    }
    let token = ServiceAccountTokenProjection { path: "token".to_owned(), ..ServiceAccountTokenProjection::default() };
    let sources = vec![VolumeProjection { service_account_token: Some(token), ..VolumeProjection::default() }];
    let projected = ProjectedVolumeSource { sources: Some(sources), ..ProjectedVolumeSource::default() };
    volumes.push(Volume { name: VOLUME.to_owned(), projected: Some(projected), ..Volume::default() });
}
