//! What Ray's autoscaler needs around it: rights at the API server, and advice for its user.

use std::collections::BTreeSet;

use super::children::Wish;
use super::{Part, Scene};
use crate::api::raycluster::WorkerGroupSpec;
use crate::plan::build::rbac::{self, Account};
use crate::plan::build::{autoscaler, command};
use crate::plan::{Object, Stage};

/// The ServiceAccount (unless the user names one), the Role and the RoleBinding. They are made before the head that uses
/// them, and stay as long as the cluster: also when the autoscaler is turned off, since a head that runs has it still.
pub(super) fn plan(scene: &Scene<'_>) -> Part {
    let mut part = Part::default();
    let Some(account) = Account::of(scene.cluster) else { return part };
    let mut accounts: BTreeSet<String> = accounts_in_use(scene).map(str::to_owned).collect();
    accounts.insert(account.name);
    let wishes = [
        rbac::service_account(scene.cluster)
            .map(|m| (m, Stage::Guard, "CreatedServiceAccount", "UpdatedServiceAccount")),
        Some((rbac::role(scene.cluster), Stage::Guard, "CreatedRole", "UpdatedRole")),
        // The API server looks at the Role when it is bound: it must be there.
        Some((
            rbac::role_binding(scene.cluster, &accounts),
            Stage::Services,
            "CreatedRoleBinding",
            "UpdatedRoleBinding",
        )),
    ];
    // A new cluster's first event tells of all that came with its head.
    let tell = scene.heads().next().is_some();
    let steps = wishes.into_iter().flatten().filter_map(|(manifest, stage, created, updated)| {
        scene.fulfil(Wish { object: Object::Other(manifest), stage, created, updated, tell })
    });
    part.steps.extend(steps);
    part
}

/// What head pods run as in which an autoscaler is at work: they keep their rights when the template names another.
fn accounts_in_use<'a>(scene: &'a Scene<'_>) -> impl Iterator<Item = &'a str> {
    let scaling = scene.heads().filter(|p| p.containers.iter().any(|c| c.name == autoscaler::NAME));
    scaling.filter_map(|p| p.service_account.as_deref())
}

/// What the user should know of a spec that is carried out nevertheless.
pub(super) fn advice(scene: &Scene<'_>) -> Option<String> {
    if command::autoscaler_version(scene.cluster) != Some("v1") {
        return None;
    }
    let policy = |g: &WorkerGroupSpec| g.template.spec.as_ref()?.restart_policy.clone();
    let restarts = |g: &&WorkerGroupSpec| policy(g).is_some_and(|p| !p.is_empty() && p != "Never");
    let groups = scene.cluster.spec.groups();
    let names: Vec<&str> = groups.iter().filter(restarts).map(|g| g.group_name.as_str()).collect();
    (!names.is_empty()).then(|| {
        format!(
            "Workers of {} restart in place while Ray's autoscaler v1 replaces them as lost: set restartPolicy to Never in \
             their templates",
            names.join(", ")
        )
    })
}
