//! Fields that this release does not act on.

use crate::api::RayCluster;
use crate::api::validation::Fault;

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
