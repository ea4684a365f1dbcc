//! Does any node offer the accelerators that the groups ask for? Only a statement: no pod is held back for it.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{PodSpec, PodTemplateSpec};

use super::Scene;
use super::standing::{Standing, standing};
use crate::api::accelerators::is_accelerator;
use crate::api::names::{HEAD_GROUP, labels};
use crate::observe::seen::{NodeView, NodesSeen, PodView, TaintView};
use crate::plan::placing;
use crate::plan::quantity::Amount;
use crate::plan::resources::pod_amount;
use crate::plan::words::some_of;

/// Condition `AcceleratorsAvailable`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Finding {
    pub status: String,
    pub reason: String,
    pub message: String,
    /// The groups that no node can take.
    pub without: Vec<Lack>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Lack {
    pub group: String,
    pub reason: &'static str,
    /// A clause: what the group asks for, and what there is.
    pub text: String,
}

/// What a group's pods ask for: amounts by resource.
type Wanted = BTreeMap<String, Amount>;

/// `None` when no group asks for an accelerator.
pub(super) fn find(scene: &Scene<'_>) -> Option<Finding> {
    let asking: Vec<(&str, &PodSpec, Wanted)> = groups(scene)
        .filter_map(|(name, template)| Some((name, template.spec.as_ref()?)))
        .map(|(name, pod)| (name, pod, wanted(pod)))
        .filter(|(.., wanted)| !wanted.is_empty())
        .collect();
    if asking.is_empty() {
        return None;
    }
    let nodes = match &scene.seen.nodes {
        NodesSeen::Known(nodes) => nodes,
        NodesSeen::NotYet => return as_before(scene),
        NodesSeen::Refused(words) => {
            let message = format!(
                "Nodes cannot be listed, so nobody knows what they offer: {words}. Grant get, list and watch on nodes with a ClusterRole (the chart does, but for singleNamespaceInstall)"
            );
            return Some(Finding {
                status: "Unknown".into(),
                reason: "NodesNotListed".into(),
                message,
                without: vec![],
            });
        }
    };
    let nodes: Vec<&NodeView> = nodes.values().map(|n| &**n).collect();
    let without: Vec<Lack> =
        asking.iter().filter_map(|(name, pod, wanted)| lack(scene, name, pod, wanted, &nodes)).collect();
    let Some(first) = without.first() else {
        let message = "For every group that asks for accelerators there are nodes that offer them".to_owned();
        return Some(Finding { status: "True".into(), reason: "NodesOffer".into(), message, without });
    };
    let all: Vec<&str> = without.iter().map(|l| l.text.as_str()).collect();
    let message = format!("{}. Pods are made all the same: a node autoscaler may bring such nodes", all.join("; "));
    Some(Finding { status: "False".into(), reason: first.reason.into(), message, without })
}

/// A pod without a node, of a group that no node can take, and that group's lack in words. Of taints the scheduler has the
/// last word: an admission plugin may have added a toleration to the pod.
pub(super) fn waiting<'a>(scene: &'a Scene<'_>) -> Option<(&'a PodView, String)> {
    let idle = |p: &&PodView| p.node.is_none() && !p.is_ready() && standing(p, scene.now) == Standing::Live;
    let mut pods = scene.heads().chain(scene.workers()).filter(idle).peekable();
    pods.peek()?;
    let without = find(scene)?.without;
    let holds =
        |p: &PodView, l: &Lack| l.group == p.label(labels::GROUP) && (l.reason != "Tainted" || p.unscheduled.is_some());
    pods.find_map(|p| Some((p, without.iter().find(|l| holds(p, l))?.text.clone())))
}

/// The condition as it stands, until nodes were looked at.
fn as_before(scene: &Scene<'_>) -> Option<Finding> {
    let old = scene.old_condition("AcceleratorsAvailable")?;
    let (status, reason, message) = (old.status.clone(), old.reason.clone(), old.message.clone());
    Some(Finding { status, reason, message, without: Vec::new() })
}

fn groups<'a>(scene: &'a Scene<'_>) -> impl Iterator<Item = (&'a str, &'a PodTemplateSpec)> {
    let spec = &scene.cluster.spec;
    let workers = spec.groups().iter().filter(|g| g.suspend != Some(true));
    let workers = workers.map(|g| (g.group_name.as_str(), &g.template));
    std::iter::once((HEAD_GROUP, &spec.head_group_spec.template)).chain(workers)
}

fn wanted(pod: &PodSpec) -> Wanted {
    let containers = pod.init_containers.iter().flatten().chain(&pod.containers);
    let maps = containers.filter_map(|c| c.resources.as_ref()).flat_map(|r| r.requests.iter().chain(&r.limits));
    let names: BTreeSet<&String> = maps.flat_map(|m| m.keys()).filter(|name| is_accelerator(name)).collect();
    let amounts = names.into_iter().map(|name| (name.clone(), pod_amount(pod, name)));
    amounts.filter(|(_, amount)| !amount.is_zero()).collect()
}

/// Sieves the nodes: who has the resource, whom the pod may choose, who has enough, whose taints it tolerates. The sieve
/// that lets nobody through is the reason.
fn lack(scene: &Scene<'_>, group: &str, pod: &PodSpec, wanted: &Wanted, nodes: &[&NodeView]) -> Option<Lack> {
    let asked: Vec<String> = wanted.iter().map(|(name, amount)| format!("{amount} {name}")).collect();
    let asked = asked.join(" and ");
    let no =
        |reason, text: String| Some(Lack { group: group.to_owned(), reason, text: format!("group {group} {text}") });

    let offering = sieve(nodes, |n| wanted.keys().all(|name| n.allocatable.contains_key(name)));
    if offering.is_empty() {
        return no("NoSuchNode", format!("asks for {asked} in a pod, and no node has that; {}", offers(nodes)));
    }
    let chosen = sieve(&offering, |n| placing::selects(pod, n, |_| false));
    if chosen.is_empty() {
        if offering.iter().any(|n| placing::selects(pod, n, is_model)) {
            let asks = listed(placing::requirements(pod, is_model).into_iter().map(|(_, words)| words).collect());
            let have = models(pod, &offering);
            return no("WrongModel", format!("asks for {asked} on nodes with {asks}; those that offer it have {have}"));
        }
        let asks = listed(placing::requirements(pod, |_| true).into_iter().map(|(_, words)| words).collect());
        let asks = if asks.is_empty() { "that its node affinity allows".to_owned() } else { format!("with {asks}") };
        let have = names(&offering);
        return no("NoSuchNode", format!("asks for {asked} on nodes {asks}; only other nodes offer it: {have}"));
    }
    let enough = sieve(&chosen, |n| wanted.iter().all(|(name, amount)| offered(n, name).covers(*amount)));
    if enough.is_empty() {
        let most = wanted.keys().map(|name| most(name, &chosen));
        let text =
            format!("asks for {asked} in one pod; a node that it may choose offers at most {}", listed(most.collect()));
        return no("TooFewPerNode", text);
    }
    let tolerated = |n: &&NodeView| placing::untolerated(pod, n).is_empty() || has_pod_of(scene, group, n);
    if enough.iter().any(tolerated) {
        return None;
    }
    no("Tainted", format!("asks for {asked}, and {}", taints(pod, &enough)))
}

fn sieve<'a>(nodes: &[&'a NodeView], passes: impl Fn(&NodeView) -> bool) -> Vec<&'a NodeView> {
    nodes.iter().copied().filter(|n| passes(n)).collect()
}

/// A pod of the group stands there, so something adds the toleration that the template lacks: an admission plugin, say.
fn has_pod_of(scene: &Scene<'_>, group: &str, node: &NodeView) -> bool {
    let of_group = scene.pods.iter().filter(|p| p.label(labels::GROUP) == group);
    let mut live = of_group.filter(|p| standing(p, scene.now) == Standing::Live);
    node.ready && !node.unschedulable && live.any(|p| p.node.as_ref() == Some(&node.name))
}

/// Whether a label tells one make of accelerator from another: `nvidia.com/gpu.product`,
/// `cloud.google.com/gke-accelerator`, `node.kubernetes.io/instance-type`.
fn is_model(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    ["gpu", "tpu", "accelerator", "neuron", "instance-type"].iter().any(|word| key.contains(word))
}

fn offered(node: &NodeView, resource: &str) -> Amount {
    node.allocatable.get(resource).and_then(Amount::of).unwrap_or_default()
}

/// What the nodes have instead.
fn offers(nodes: &[&NodeView]) -> String {
    let mut all: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, _) in
        nodes.iter().flat_map(|n| &n.allocatable).filter(|(_, q)| Amount::of(q).is_some_and(|a| !a.is_zero()))
    {
        *all.entry(name).or_default() += 1;
    }
    if all.is_empty() {
        return "no node offers any accelerator".to_owned();
    }
    format!("nodes offer {}", listed(all.into_iter().map(|(name, n)| format!("{name} ({})", count(n))).collect()))
}

fn models(pod: &PodSpec, nodes: &[&NodeView]) -> String {
    let keys: BTreeSet<String> = placing::requirements(pod, is_model).into_iter().map(|(key, _)| key).collect();
    let mut all: BTreeMap<String, usize> = BTreeMap::new();
    for (key, node) in keys.iter().flat_map(|key| nodes.iter().map(move |n| (key, n))) {
        let has = node.labels.get(key).map_or_else(|| format!("no label {key}"), |value| format!("{key}={value}"));
        *all.entry(has).or_default() += 1;
    }
    listed(all.into_iter().map(|(has, n)| format!("{has} ({})", count(n))).collect())
}

fn most(resource: &str, nodes: &[&NodeView]) -> String {
    let mut best = Amount::default();
    for amount in nodes.iter().map(|n| offered(n, resource)) {
        if amount.covers(best) {
            best = amount;
        }
    }
    let hint = if best.is_zero() { "; does their device plugin run?" } else { "" };
    let holders = sieve(nodes, |n| offered(n, resource).covers(best));
    format!("{best} {resource} ({}{hint})", names(&holders))
}

fn taints(pod: &PodSpec, nodes: &[&NodeView]) -> String {
    let mut all: BTreeMap<TaintView, Vec<&NodeView>> = BTreeMap::new();
    for node in nodes {
        for taint in placing::untolerated(pod, node) {
            all.entry(taint).or_default().push(node);
        }
    }
    let each = all.into_iter().map(|(taint, nodes)| {
        let names = names(&nodes);
        match taint.key.as_str() {
            "node.kubernetes.io/unschedulable" => format!("{names} cordoned"),
            "node.kubernetes.io/not-ready" | "node.kubernetes.io/unreachable" => format!("{names} not Ready"),
            key if taint.value.is_empty() => format!("{names} tainted {key}:{}", taint.effect),
            key => format!("{names} tainted {key}={}:{}", taint.value, taint.effect),
        }
    });
    format!("the nodes that offer it do not take its pods: {}", listed(each.collect()))
}

fn names(nodes: &[&NodeView]) -> String {
    let all: Vec<&str> = nodes.iter().map(|n| n.name.as_str()).collect();
    some_of(&all, 3)
}

fn count(nodes: usize) -> String {
    if nodes == 1 { "1 node".to_owned() } else { format!("{nodes} nodes") }
}

/// Some of a list; a message has bounds.
fn listed(mut all: Vec<String>) -> String {
    let more = all.len().saturating_sub(8);
    all.truncate(8);
    if more > 0 {
        all.push(format!("{more} more"));
    }
    all.join(", ")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::api::RayCluster;
    use crate::observe::seen::Seen;
    use crate::plan::config::PlanConfig;

    fn found(spec: &str, status: &str, nodes: NodesSeen) -> Option<Finding> {
        let text = format!(
            "{{metadata: {{name: c}}, spec: {{headGroupSpec: {{template: {{spec: {{containers: [{{name: r}}]}}}}}}, workerGroupSpecs: [{{groupName: w, {spec}}}]}}, status: {{{status}}}}}"
        );
        let cluster: RayCluster = serde_saphyr::from_str(&text).unwrap_or_else(|e| panic!("{text}: {e}"));
        let (seen, config) = (Seen { nodes, ..Seen::default() }, PlanConfig::default());
        find(&Scene::new(&cluster, &seen, "2026-01-01T00:00:00Z".parse().unwrap(), &config))
    }

    const ASKS: &str = "template: {spec: {containers: [{name: r, resources: {limits: {nvidia.com/gpu: 1}}}]}}";
    const OLD: &str = "conditions: [{type: AcceleratorsAvailable, status: 'True', reason: NodesOffer, message: old, lastTransitionTime: '2026-01-01T00:00:00Z'}]";

    #[test]
    fn what_is_said_without_nodes() {
        let none = || NodesSeen::Known(Arc::default());
        assert_eq!(found(ASKS, "", none()).unwrap().reason, "NoSuchNode");
        let refused = found(ASKS, OLD, NodesSeen::Refused("nodes is forbidden".into())).unwrap();
        assert_eq!((refused.status.as_str(), refused.reason.as_str()), ("Unknown", "NodesNotListed"));
        assert!(refused.message.contains("nodes is forbidden"), "{}", refused.message);
        assert_eq!(found(ASKS, "", NodesSeen::NotYet), None, "nothing is known: nothing is said");
        assert_eq!(found(ASKS, OLD, NodesSeen::NotYet).unwrap().message, "old", "what was said stands");
    }

    #[test]
    fn who_does_not_ask_hears_nothing() {
        let none = || NodesSeen::Known(Arc::default());
        let zero = ASKS.replace("gpu: 1", "gpu: 0");
        let suspended = format!("suspend: true, {ASKS}");
        for spec in ["template: {spec: {containers: [{name: r}]}}", &zero, &suspended] {
            assert_eq!(found(spec, OLD, none()), None, "{spec}");
        }
    }
}
