//! Fields that are stored but not acted on yet. Their user is told once instead of waiting for nothing.

use crate::api::RayCluster;
use crate::api::validation::Fault;

/// Paths in the spec (or annotations) that this release has no effect for.
pub(super) fn without_effect(cluster: &RayCluster) -> Vec<&'static str> {
    let spec = &cluster.spec;
    let annotated = |key: &str| cluster.metadata.annotations.as_ref().is_some_and(|a| a.contains_key(key));
    [
        ("spec.gcsFaultToleranceOptions", spec.gcs_fault_tolerance_options.is_some()),
        ("annotation ray.io/ft-enabled", annotated("ray.io/ft-enabled")),
    ]
    .into_iter()
    .filter_map(|(path, used)| used.then_some(path))
    .collect()
}

/// What would be unsafe to pass over: a cluster that asks for protection must not run without it.
pub(super) fn refused(cluster: &RayCluster) -> Vec<Fault> {
    let spec = &cluster.spec;
    [("spec.tlsOptions", spec.tls_options.as_ref().is_some_and(|t| t.enabled == Some(true)))]
        .into_iter()
        .filter(|(_, asked)| *asked)
        .map(|(field, _)| Fault {
            field: field.to_owned(),
            message:
                "this release does not enforce it, and the cluster would run unprotected: take it out to run without, \
                  or wait for a release that has it"
                    .to_owned(),
        })
        .collect()
}
