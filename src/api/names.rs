//! Labels, annotations and the names of children. Names and keys are KubeRay's, so that its tools find ours.

/// Labels on pods and Services.
pub mod labels {
    pub const CLUSTER: &str = "ray.io/cluster";
    pub const NODE_TYPE: &str = "ray.io/node-type";
    pub const GROUP: &str = "ray.io/group";
    pub const IDENTIFIER: &str = "ray.io/identifier";
    pub const IS_RAY_NODE: &str = "ray.io/is-ray-node";
    /// Slot of a worker in its group (KubeRay's replica index).
    pub const REPLICA_INDEX: &str = "ray.io/worker-group-replica-index";
    pub const REPLICA_NAME: &str = "ray.io/worker-group-replica-name";
    pub const HOST_INDEX: &str = "ray.io/replica-host-index";
    pub const SERVE: &str = "ray.io/serve";
    /// On the Service under which hosts of a replica find each other: its cluster.
    pub const HEADLESS_WORKERS: &str = "ray.io/headless-worker-svc";
    /// Set on a RayCluster, whatever its value: all of its pods start together or none.
    pub const GANG: &str = "ray.io/gang-scheduling-enabled";
    pub const PRIORITY_CLASS: &str = "ray.io/priority-class-name";
    pub const ORIGINATED_FROM_CRD: &str = "ray.io/originated-from-crd";
    pub const ORIGINATED_FROM_CR_NAME: &str = "ray.io/originated-from-cr-name";
    pub const APP_NAME: &str = "app.kubernetes.io/name";
    pub const CREATED_BY: &str = "app.kubernetes.io/created-by";
}

/// Annotations that we read or write.
pub mod annotations {
    pub const FT_ENABLED: &str = "ray.io/ft-enabled";
    pub const EXTERNAL_STORAGE_NAMESPACE: &str = "ray.io/external-storage-namespace";
    /// How many seconds the deletion of a cluster may wait for Redis to be cleaned up.
    pub const FT_DELETION_TIMEOUT: &str = "ray.io/gcs-ft-deletion-timeout";
    /// Resources of the Job that cleans Redis up, as `cpu=500m,memory=512Mi`. Ours.
    pub const REDIS_CLEANUP_RESOURCES: &str = "ray.io/redis-cleanup-resources";
    pub const OVERWRITE_CONTAINER_CMD: &str = "ray.io/overwrite-container-cmd";
    pub const RECREATE_HASH: &str = "ray.io/upgrade-strategy-recreate-hash";
    pub const KUBERAY_VERSION: &str = "ray.io/kuberay-version";
    /// `true` on a RayCluster asks for a Service for Serve.
    pub const ENABLE_SERVE_SERVICE: &str = "ray.io/enable-serve-service";
    pub const DISABLE_HEAD_RESTART: &str = "ray.io/disable-provisioned-head-restart";
    /// How many pods stood in this slot before this one. Ours.
    pub const INCARNATION: &str = "ray.io/incarnation";
    /// How many pods in a row failed in this slot soon after they started. Ours: it grows the delay of the next.
    pub const QUICK_FAILURES: &str = "ray.io/quick-failures";
    /// What a pod's template looked like when the pod was made, part by part. Ours.
    pub const TEMPLATE_PARTS: &str = "ray.io/template-parts";
    /// The pod hangs on a node that does not answer; another one has its place. Ours.
    pub const LOST: &str = "ray.io/lost";
    /// Hash of a Service as we last wished it. Ours: a difference means that the wish has changed.
    pub const APPLIED_HASH: &str = "ray.io/applied-hash";
}

/// Keeps a deleted RayCluster until its keys are gone from Redis.
pub const REDIS_FINALIZER: &str = "ray.io/gcs-ft-redis-cleanup-finalizer";
/// Our name as an owner of fields.
pub const FIELD_MANAGER: &str = "ray-operator";
/// The value of `ray.io/group` on the head pod.
pub const HEAD_GROUP: &str = "headgroup";
/// The value of `spec.managedBy` that leaves the object to us (also the default).
pub const MANAGED_BY_US: &str = "ray.io/kuberay-operator";
/// Ray's ports.
pub const PORT_GCS: i32 = 6379;
pub const PORT_DASHBOARD: i32 = 8265;
pub const PORT_CLIENT: i32 = 10001;
pub const PORT_METRICS: i32 = 8080;
pub const PORT_SERVE: i32 = 8000;
pub const PORT_DASHBOARD_AGENT: i32 = 52365;

/// Letters that Kubernetes uses for generated suffixes: no vowels, nothing that looks like another.
const SUFFIX_LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// A pod's name: KubeRay's visible form with the suffix taken from who it is, so that creating it twice is
/// "already exists". `prefix` is the cluster's name for the head, `<cluster>-<group>` for a worker; `role` is `head`
/// or `worker`. The first 50 bytes of the prefix are kept, lower-cased (KubeRay's rule).
pub fn pod_name(prefix: &str, role: &str, uid: &str, group: &str, slot: u32, host: u32, incarnation: u32) -> String {
    let suffix = hash_suffix(&format!("{uid}/{group}/{slot}/{host}/{incarnation}"));
    format!("{}-{role}-{suffix}", first_bytes(&prefix.to_lowercase(), 50).trim_end_matches('.'))
}

/// The head pod's name when the settings ask for one without a suffix (KubeRay's rule).
pub fn fixed_head_pod_name(cluster: &str) -> String {
    format!("{}-head", first_bytes(&cluster.to_lowercase(), 50))
}

/// Label value that the hosts of one replica share: `<group>-xxxxx` (KubeRay's form, the suffix taken from the slot).
pub fn replica_name(uid: &str, group: &str, slot: u32) -> String {
    label_value(&format!("{group}-{}", hash_suffix(&format!("{uid}/{group}/{slot}"))))
}

/// `<cluster>-head-svc`, unless the user named the head Service.
pub fn head_service_name(cluster: &str, custom: Option<&str>) -> String {
    match custom {
        Some(name) if !name.is_empty() => name.to_owned(),
        _ => format!("{cluster}-head-svc"),
    }
}

/// The Service for people outside the cluster, made when `serviceType` is NodePort or LoadBalancer:
/// `<cluster>-head-external`. A Service's name has at most 63 bytes and a cluster's up to 53: of one that is too long
/// the front is kept, and a hash of the whole tells it from others.
pub fn head_external_service_name(cluster: &str) -> String {
    const SUFFIX: &str = "-head-external";
    if cluster.len() + SUFFIX.len() <= 63 {
        return format!("{cluster}{SUFFIX}");
    }
    format!("{}-{}{SUFFIX}", first_bytes(cluster, 43), hash_suffix(cluster))
}

/// `<cluster>-headless`: the Service under which hosts of a replica find each other.
pub fn headless_service_name(cluster: &str) -> String {
    format!("{cluster}-headless")
}

/// `<cluster>-serve-svc`.
pub fn serve_service_name(cluster: &str) -> String {
    format!("{cluster}-serve-svc")
}

/// A label value of at most 63 bytes: the end is kept, a leading punctuation mark becomes `r` (KubeRay's rule).
pub fn label_value(s: &str) -> String {
    keep_end(s, 63)
}

/// The name of a child that is called after its cluster (a Role, an Ingress, ...). Up to 50 bytes it is KubeRay's. Longer
/// ones are clipped to their last 50 bytes there, so that two clusters whose names end alike share a child; here they stay
/// whole as long as a label could hold them, and after that the front stays, with a hash of the whole.
pub fn child_name(wanted: &str) -> String {
    match wanted.len() {
        0..=50 => check_name(wanted),
        51..=63 => wanted.to_owned(),
        _ => format!("{}-{}", first_bytes(wanted, 57).trim_end_matches(['-', '.']), hash_suffix(wanted)),
    }
}

/// A name of at most 50 bytes: the end is kept, a leading digit or punctuation mark becomes `r` (KubeRay's rule). Long
/// names that end alike are clipped alike, so two clusters can want one name.
pub fn check_name(s: &str) -> String {
    let kept = keep_end(s, 50);
    match kept.strip_prefix(|c: char| c.is_ascii_digit()) {
        Some(rest) => format!("r{rest}"),
        None => kept,
    }
}

/// A Route's name: so much of the front that name and namespace together make one part of a host name (KubeRay's rule).
/// Of a namespace with a very long name eight letters are kept; its Routes have no host of their own.
pub fn check_route_name(s: &str, namespace: &str) -> String {
    let kept = first_bytes(s, 51_usize.saturating_sub(namespace.len()).max(8));
    check_name(kept.trim_end_matches(['-', '.']))
}

fn keep_end(s: &str, max: usize) -> String {
    let mut start = s.len().saturating_sub(max);
    while !s.is_char_boundary(start) {
        start += 1;
    }
    let kept = &s[start..];
    match kept.chars().next() {
        Some(c) if c.is_ascii_punctuation() => format!("r{}", &kept[1..]),
        _ => kept.to_owned(),
    }
}

fn first_bytes(s: &str, max: usize) -> &str {
    let mut end = s.len().min(max);
    while !s.is_char_boundary(end) {
        end -= 1;
    }
    &s[..end]
}

/// Five letters from a 64-bit FNV-1a hash, stable across versions and platforms.
pub(crate) fn hash_suffix(identity: &str) -> String {
    let mut h = fnv1a(identity.as_bytes());
    (0..5)
        .map(|_| {
            let letter = SUFFIX_LETTERS[(h % SUFFIX_LETTERS.len() as u64) as usize];
            h /= SUFFIX_LETTERS.len() as u64;
            letter as char
        })
        .collect()
}

/// 64-bit FNV-1a: a hash that never changes between versions, unlike the standard library's.
pub fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0000_0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: &str = "a23456789-b23456789-c23456789-d23456789-e23456789-f23";

    #[test]
    fn names_are_clipped_as_kuberay_does() {
        assert_eq!(LONG.len(), 53);
        let dashed = format!("abc-{}", &LONG[4..]);
        for (name, clipped) in [
            ("demo", "demo"),
            (&LONG[3..], "r56789-b23456789-c23456789-d23456789-e23456789-f23"),
            (LONG, "r56789-b23456789-c23456789-d23456789-e23456789-f23"),
            (&dashed, "r56789-b23456789-c23456789-d23456789-e23456789-f23"),
            ("1st", "rst"),
            ("-a", "ra"),
        ] {
            assert_eq!(check_name(name), clipped, "{name}");
        }
    }

    #[test]
    fn children_of_clusters_whose_names_end_alike_have_names_of_their_own() {
        assert_eq!(child_name("demo"), "demo");
        assert_eq!(child_name(&LONG[3..]), check_name(&LONG[3..]));
        let other = format!("xyz{}", &LONG[3..]);
        assert_eq!(check_name(&other), check_name(LONG));
        for wanted in [LONG.to_owned(), format!("{LONG}-head-ingress"), format!("{}-head-ingress", &LONG[..43])] {
            let (mine, theirs) = (child_name(&wanted), child_name(&wanted.replacen("a23", "xyz", 1)));
            assert_ne!(mine, theirs);
            assert!(mine.len() <= 63 && mine.starts_with("a23456789-"), "{mine}");
        }
        assert_eq!(child_name(LONG), LONG);
    }
}
