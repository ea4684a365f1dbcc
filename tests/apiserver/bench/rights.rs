//! The chart's RBAC rules, for the operators under test: a right that the chart does not grant is missing here too.

use kube::Client;
use serde_json::{Value, json};

use super::install::repository;
use super::objects;

/// The ClusterRole that holds the chart's rules.
pub const ROLE: &str = "ray-operator";
/// The Role of the Lease, bound where the Lease is.
pub const LEASE_ROLE: &str = "ray-operator-lease";

pub async fn define(client: &Client) {
    for (name, rules) in [(ROLE, rules()), (LEASE_ROLE, lease_rules())] {
        objects::apply(
            client,
            "",
            &json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                "metadata": {"name": name}, "rules": rules,
            }),
        )
        .await;
    }
}

/// Grants a role to a user in one namespace.
pub async fn grant(client: &Client, namespace: &str, role: &str, user: &str) {
    objects::apply(client, namespace, &binding(role, user)).await;
}

/// Takes it away again.
pub async fn revoke(client: &Client, namespace: &str, role: &str, user: &str) {
    let api = objects::api(client, namespace, &binding(role, user));
    api.delete(&format!("{role}-{user}"), &Default::default()).await.expect("the binding to go");
}

fn binding(role: &str, user: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": format!("{role}-{user}")},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    })
}

/// The rules in the chart's helper template, with all that its values can switch on.
pub fn rules() -> Value {
    let text = template("_helpers.tpl");
    let (_, rest) = text.split_once("define \"ray-operator.rules\"").expect("the chart's rules");
    let (rules, _) = rest.split_once("{{- end -}}").expect("the end of the chart's rules");
    parse(rules)
}

fn lease_rules() -> Value {
    let text = template("leader-election-rbac.yaml");
    let (_, rest) = text.split_once("rules:").expect("the chart's rules for the Lease");
    let (rules, _) = rest.split_once("---").expect("their end");
    parse(rules)
}

fn template(name: &str) -> String {
    let file = repository().join("charts/ray-operator/templates").join(name);
    std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
}

fn parse(rules: &str) -> Value {
    let mut lines = rules.lines().skip(1).peekable();
    let indent = lines.peek().map_or(0, |line| line.len() - line.trim_start().len());
    let plain: Vec<&str> = lines
        .filter(|line| !line.trim_start().starts_with("{{"))
        .map(|line| line.get(indent..).unwrap_or_default())
        .collect();
    serde_saphyr::from_str(&plain.join("\n")).expect("rules without template language")
}
