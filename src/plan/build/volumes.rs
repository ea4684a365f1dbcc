//! Shared memory for Ray's object store.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, EmptyDirVolumeSource, PodSpec, Volume, VolumeMount};

use super::start_params::effective;

const VOLUME: &str = "shared-mem";
const PATH: &str = "/dev/shm";

/// Mounts memory at `/dev/shm`, as much as the container may use. Not where the user put the object store elsewhere
/// (`plasma-directory`) or mounts that path; a volume named `shared-mem` of the user's own is used as it is.
pub fn add_shared_memory(spec: &mut PodSpec, ray: &mut Container, params: &BTreeMap<String, String>) {
    let mounted = |m: &VolumeMount| m.mount_path.trim_end_matches('/') == PATH;
    if effective(params, ray, "plasma-directory").is_some() || ray.volume_mounts.iter().flatten().any(mounted) {
        return;
    }
    let volumes = spec.volumes.get_or_insert_default();
    if volumes.iter().all(|v| v.name != VOLUME) {
        let memory = ray.resources.as_ref().and_then(|r| {
            let of = |amounts: &Option<BTreeMap<_, _>>| amounts.as_ref().and_then(|a| a.get("memory").cloned());
            of(&r.limits).or_else(|| of(&r.requests))
        });
        let empty_dir =
            EmptyDirVolumeSource { medium: Some("Memory".to_owned()), size_limit: memory, ..Default::default() };
        volumes.push(Volume { name: VOLUME.to_owned(), empty_dir: Some(empty_dir), ..Volume::default() });
    }
    let mount = VolumeMount { name: VOLUME.to_owned(), mount_path: PATH.to_owned(), ..VolumeMount::default() };
    ray.volume_mounts.get_or_insert_default().push(mount);
}
