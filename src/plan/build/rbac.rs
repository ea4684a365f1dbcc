//! What the head's pod may do at the API server, so that Ray's autoscaler in it can do its work and no more.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::autoscaler;
use super::child::{child, child_labels};
use crate::api::RayCluster;
use crate::api::children::Kind;
use crate::api::names::child_name;
use crate::plan::Manifest;

/// The ServiceAccount that a head with an autoscaler runs as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    pub name: String,
    /// Named in the head's template: it is not ours to make.
    pub of_the_user: bool,
}

impl Account {
    /// The one that the user named, else ours. `None` without an autoscaler: then the template says it.
    pub fn of(cluster: &RayCluster) -> Option<Account> {
        if !autoscaler::is_on(cluster) {
            return None;
        }
        let spec = cluster.spec.head_group_spec.template.spec.as_ref();
        let given = |name: &Option<String>| name.clone().filter(|n| !n.is_empty());
        let theirs = spec.and_then(|s| given(&s.service_account_name).or_else(|| given(&s.service_account)));
        let of_the_user = theirs.is_some();
        Some(Account { name: theirs.unwrap_or_else(|| own_name(cluster)), of_the_user })
    }
}

/// The name of ServiceAccount, Role and RoleBinding.
fn own_name(cluster: &RayCluster) -> String {
    child_name(cluster.metadata.name.as_deref().unwrap_or_default())
}

fn made(cluster: &RayCluster, kind: Kind, body: Value) -> Manifest {
    child(cluster, kind, own_name(cluster), child_labels(cluster), BTreeMap::new(), body)
}

/// The ServiceAccount, when it is ours to make.
pub fn service_account(cluster: &RayCluster) -> Option<Manifest> {
    let account = Account::of(cluster)?;
    (!account.of_the_user).then(|| made(cluster, Kind::ServiceAccount, json!({})))
}

/// What the autoscaler does: it reads the pods, resizes them in place, reads the RayCluster and sets its replicas and
/// whom to delete. The operator must hold the same rights, or the API server refuses it to grant them.
pub fn role(cluster: &RayCluster) -> Manifest {
    let rules = json!([
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "patch"]},
        {"apiGroups": [""], "resources": ["pods/resize"], "verbs": ["patch"]},
        {"apiGroups": ["ray.io"], "resources": ["rayclusters"], "verbs": ["get", "patch"]},
    ]);
    made(cluster, Kind::Role, json!({ "rules": rules }))
}

/// Grants the Role to these ServiceAccounts.
pub fn role_binding(cluster: &RayCluster, accounts: &BTreeSet<String>) -> Manifest {
    let namespace = cluster.metadata.namespace.as_deref().unwrap_or_default();
    let subjects: Vec<Value> =
        accounts.iter().map(|name| json!({"kind": "ServiceAccount", "name": name, "namespace": namespace})).collect();
    let role = json!({"apiGroup": Kind::Role.group(), "kind": "Role", "name": own_name(cluster)});
    made(cluster, Kind::RoleBinding, json!({"roleRef": role, "subjects": subjects}))
}
