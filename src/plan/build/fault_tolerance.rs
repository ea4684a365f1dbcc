//! Where Ray's control store keeps its state so that a new head finds it again: what pods need for that.

use k8s_openapi::api::core::v1::{Container, EnvVar, PersistentVolumeClaimVolumeSource, PodSpec, Volume, VolumeMount};

use super::env::{literal, set, set_default};
use super::{Group, claim, says_true};
use crate::api::RayCluster;
use crate::api::names::annotations;
use crate::api::raycluster::{GcsFaultToleranceOptions, RedisCredential, ray_container};

const VOLUME: &str = "gcs-storage";
const PATH: &str = "/data/gcs";

/// Where the state is kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Store<'a> {
    /// In the head's memory: a new head starts empty.
    Memory,
    /// In Redis, by `gcsFaultToleranceOptions`, or by the older annotation `ray.io/ft-enabled` (`None`) with the
    /// address in the head's environment.
    Redis(Option<&'a GcsFaultToleranceOptions>),
    /// In files on a claim.
    Volume(&'a GcsFaultToleranceOptions),
}

impl<'a> Store<'a> {
    pub(crate) fn of(cluster: &'a RayCluster) -> Store<'a> {
        match cluster.spec.gcs_fault_tolerance_options.as_ref() {
            Some(options) if options.backend.as_deref() == Some("rocksdb") => Store::Volume(options),
            Some(options) => Store::Redis(Some(options)),
            None if says_true(cluster.metadata.annotations.as_ref(), annotations::FT_ENABLED) => Store::Redis(None),
            None => Store::Memory,
        }
    }

    /// Whether heads write to Redis. Without an address they do not, whatever the options say.
    pub(crate) fn is_in_redis(self) -> bool {
        matches!(self, Store::Redis(options) if options.is_none_or(|o| !lacks_address(o)))
    }
}

fn lacks_address(options: &GcsFaultToleranceOptions) -> bool {
    options.redis_address.as_deref().is_none_or(str::is_empty)
}

/// Fault tolerance by Redis is asked for without a Redis.
pub(crate) fn lacks_redis(cluster: &RayCluster) -> bool {
    matches!(Store::of(cluster), Store::Redis(Some(options)) if lacks_address(options))
}

/// What keeps this cluster's keys apart from those of others in one Redis: the user's word, else the cluster's uid.
pub(crate) fn storage_namespace(cluster: &RayCluster) -> &str {
    const NAME: &str = "RAY_external_storage_namespace";
    let env = ray_container(&cluster.spec.head_group_spec.template).and_then(|ray| ray.env.as_ref());
    let env = env.and_then(|env| env.iter().find(|e| e.name == NAME)?.value.as_deref());
    let options = cluster.spec.gcs_fault_tolerance_options.as_ref();
    let options = options.and_then(|o| o.external_storage_namespace.as_deref());
    let all = cluster.metadata.annotations.as_ref();
    let annotation = all.and_then(|a| a.get(annotations::EXTERNAL_STORAGE_NAMESPACE)).map(String::as_str);
    let given = [env, options, annotation].into_iter().flatten().find(|n| !n.is_empty());
    given.or(cluster.metadata.uid.as_deref()).unwrap_or_default()
}

/// Parameters of the head's `ray start`. The shell in the container fills in the values, so that no secret stands in the
/// pod's command.
pub(crate) fn start_params(group: Group) -> impl Iterator<Item = (&'static str, &'static str)> {
    let options = match Store::of(group.cluster) {
        Store::Redis(options) if group.is_head() => options,
        _ => None,
    };
    let username = options.and_then(|o| o.redis_username.as_ref()).map(|_| ("redis-username", "$REDIS_USERNAME"));
    let password = options.and_then(|o| o.redis_password.as_ref()).map(|_| ("redis-password", "$REDIS_PASSWORD"));
    username.into_iter().chain(password)
}

/// Variables of the Ray container.
pub(crate) fn env(ray: &mut Container, group: Group) {
    let store = Store::of(group.cluster);
    let env = ray.env.get_or_insert_default();
    match store {
        Store::Memory => {}
        // Workers wait for the head's return instead of ending.
        _ if !group.is_head() => set_default(env, literal("RAY_gcs_rpc_server_reconnect_timeout_s", "600")),
        Store::Redis(options) => {
            set_default(env, literal("RAY_external_storage_namespace", storage_namespace(group.cluster)));
            let Some(options) = options else {
                let params = group.params().and_then(|p| p.get("redis-password"));
                params.into_iter().for_each(|password| set_default(env, literal("REDIS_PASSWORD", password)));
                return;
            };
            set(env, literal("RAY_REDIS_ADDRESS", options.redis_address.as_deref().unwrap_or_default()));
            for (name, credential) in
                [("REDIS_USERNAME", &options.redis_username), ("REDIS_PASSWORD", &options.redis_password)]
            {
                credential.iter().for_each(|c| set(env, secret(name, c)));
            }
        }
        Store::Volume(_) => {
            set_default(env, literal("RAY_gcs_storage", "rocksdb"));
            set_default(env, literal("RAY_gcs_storage_path", PATH));
        }
    }
}

fn secret(name: &str, credential: &RedisCredential) -> EnvVar {
    let RedisCredential { value, value_from } = credential.clone();
    EnvVar { name: name.to_owned(), value: value.filter(|_| value_from.is_none()), value_from }
}

/// The volume of the embedded store, on the head.
pub(crate) fn add_volume(spec: &mut PodSpec, ray: &mut Container, group: Group) {
    let Store::Volume(options) = Store::of(group.cluster) else { return };
    if !group.is_head() {
        return;
    }
    let source = PersistentVolumeClaimVolumeSource { claim_name: claim::name(group.cluster), read_only: None };
    let volume = Volume { name: VOLUME.to_owned(), persistent_volume_claim: Some(source), ..Volume::default() };
    spec.volumes.get_or_insert_default().push(volume);
    ray.volume_mounts.get_or_insert_default().push(VolumeMount {
        name: VOLUME.to_owned(),
        mount_path: PATH.to_owned(),
        sub_path: options.storage.as_ref().and_then(|s| s.sub_path.clone()).filter(|p| !p.is_empty()),
        ..VolumeMount::default()
    });
}
