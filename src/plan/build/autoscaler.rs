//! The container beside the head in which Ray's own autoscaler runs.

use k8s_openapi::api::core::v1::{Container, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::command::shell;
use super::env::{field, literal, set};
use super::login;
use crate::api::RayCluster;
use crate::api::names::labels;
use crate::api::raycluster::AutoscalerOptions;
use crate::plan::config::PlanConfig;

pub(crate) const NAME: &str = "autoscaler";
/// The kubelet fills in the variables, before any shell sees the line.
const START: &str =
    "ray kuberay-autoscaler --cluster-name $(RAY_CLUSTER_NAME) --cluster-namespace $(RAY_CLUSTER_NAMESPACE)";

/// Whether Ray's autoscaler decides on the number of workers.
pub(crate) fn is_on(cluster: &RayCluster) -> bool {
    cluster.spec.enable_in_tree_autoscaling == Some(true)
}

/// The container, when the autoscaler is on. `ray` is the head's Ray container as the user wrote it, whose image it shares.
pub(crate) fn container(cluster: &RayCluster, ray: &Container, config: &PlanConfig) -> Option<Container> {
    is_on(cluster).then(|| {
        let mut container = plain(ray, config);
        login::add(&mut container, cluster);
        if let Some(options) = &cluster.spec.autoscaler_options {
            apply(&mut container, options);
        }
        container
    })
}

fn plain(ray: &Container, config: &PlanConfig) -> Container {
    let amounts =
        || Some([("cpu", "500m"), ("memory", "512Mi")].map(|(k, v)| (k.to_owned(), Quantity(v.to_owned()))).into());
    Container {
        name: NAME.to_owned(),
        image: ray.image.clone(),
        image_pull_policy: Some("IfNotPresent".to_owned()),
        command: Some(shell(config)),
        args: Some(vec![START.to_owned()]),
        env: Some(vec![
            field("RAY_CLUSTER_NAME", &format!("metadata.labels['{}']", labels::CLUSTER)),
            field("RAY_CLUSTER_NAMESPACE", "metadata.namespace"),
            field("RAY_HEAD_POD_NAME", "metadata.name"),
            literal("KUBERAY_CRD_VER", "v1"),
            literal("KUBERAY_GEN_AUTOSCALER_START_CMD", START),
        ]),
        resources: Some(ResourceRequirements { limits: amounts(), requests: amounts(), ..Default::default() }),
        termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
        ..Container::default()
    }
}

/// What the user says replaces ours; variables, sources of variables and mounts are added to ours.
fn apply(container: &mut Container, options: &AutoscalerOptions) {
    replace(&mut container.resources, &options.resources);
    replace(&mut container.security_context, &options.security_context);
    replace(&mut container.image, &options.image.clone().filter(|image| !image.is_empty()));
    replace(&mut container.image_pull_policy, &options.image_pull_policy.clone().filter(|policy| !policy.is_empty()));
    replace(&mut container.command, &options.command.clone().filter(|words| !words.is_empty()));
    replace(&mut container.args, &options.args.clone().filter(|words| !words.is_empty()));
    let env = container.env.get_or_insert_default();
    for var in options.env.iter().flatten() {
        set(env, var.clone());
    }
    container.env_from = options.env_from.clone();
    container.volume_mounts.get_or_insert_default().extend(options.volume_mounts.iter().flatten().cloned());
}

fn replace<T: Clone>(ours: &mut Option<T>, theirs: &Option<T>) {
    if theirs.is_some() {
        ours.clone_from(theirs);
    }
}
