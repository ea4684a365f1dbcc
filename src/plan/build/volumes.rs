//! Volumes that we add: shared memory for Ray's object store, and the folder of Ray's logs.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, EmptyDirVolumeSource, PodSpec, Volume, VolumeMount};

use super::start_params::effective;

const VOLUME: &str = "shared-mem";
const PATH: &str = "/dev/shm";
const LOGS: &str = "ray-logs";
const LOGS_PATH: &str = "/tmp/ray";

/// Mounts memory at `/dev/shm`, as much as the container may use. Not where the user put the object store elsewhere
/// (`plasma-directory`) or mounts that path; a volume named `shared-mem` of the user's own is used as it is.
pub fn add_shared_memory(spec: &mut PodSpec, ray: &mut Container, params: &BTreeMap<String, String>) {
    if effective(params, ray, "plasma-directory").is_some() || mounted(ray, PATH).is_some() {
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

/// Shares the folder of Ray's logs and sockets with the containers `beside` it, if there are any. A volume that the user
/// mounts there is the one that is shared (KubeRay gives the others an empty one of their own), unless which part of it
/// is meant is known inside the Ray container only (`subPathExpr`).
pub fn share_logs(spec: &mut PodSpec, ray: &mut Container, beside: &mut [Container]) {
    if beside.is_empty() {
        return;
    }
    let ours = VolumeMount { name: LOGS.to_owned(), mount_path: LOGS_PATH.to_owned(), ..VolumeMount::default() };
    let shared = match mounted(ray, LOGS_PATH) {
        Some(theirs) if theirs.sub_path_expr.is_none() => {
            VolumeMount { name: theirs.name.clone(), sub_path: theirs.sub_path.clone(), ..ours }
        }
        Some(_) => ours,
        None => {
            ray.volume_mounts.get_or_insert_default().push(ours.clone());
            ours
        }
    };
    for container in beside {
        if mounted(container, LOGS_PATH).is_none() {
            container.volume_mounts.get_or_insert_default().push(shared.clone());
        }
    }
    let volumes = spec.volumes.get_or_insert_default();
    if shared.name == LOGS && volumes.iter().all(|v| v.name != LOGS) {
        let empty_dir = Some(EmptyDirVolumeSource::default());
        volumes.push(Volume { name: LOGS.to_owned(), empty_dir, ..Volume::default() });
    }
}

fn mounted<'a>(container: &'a Container, path: &str) -> Option<&'a VolumeMount> {
    container.volume_mounts.iter().flatten().find(|m| m.mount_path.trim_end_matches('/') == path)
}
