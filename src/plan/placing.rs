//! May a pod stand on a node? By the rules of Kubernetes' scheduler: nodeSelector, required node affinity, taints.

use std::cmp::Ordering;

use k8s_openapi::api::core::v1::{NodeSelectorRequirement, NodeSelectorTerm, PodSpec, Toleration};

use crate::observe::seen::{NodeView, TaintView};

const CORDONED: &str = "node.kubernetes.io/unschedulable";
const NOT_READY: &str = "node.kubernetes.io/not-ready";

/// Whether a pod's nodeSelector and required node affinity allow a node. Requirements on labels that `ignored` says yes
/// to are passed over.
pub fn selects(pod: &PodSpec, node: &NodeView, ignored: impl Fn(&str) -> bool) -> bool {
    let mut selector = pod.node_selector.iter().flatten().filter(|(key, _)| !ignored(key));
    let by_name = pod.node_name.as_ref().is_none_or(|name| *name == node.name);
    by_name
        && selector.all(|(key, value)| node.labels.get(key) == Some(value))
        && terms(pod).is_none_or(|terms| terms.iter().any(|t| term_holds(t, node, &ignored)))
}

/// What a pod requires of node labels that `which` says yes to, in words: `key=value`, `key In (a, b)`.
pub fn requirements(pod: &PodSpec, which: impl Fn(&str) -> bool) -> Vec<(String, String)> {
    let selector = pod.node_selector.iter().flatten().map(|(key, value)| (key.clone(), format!("{key}={value}")));
    let affinity = terms(pod).into_iter().flatten().flat_map(|t| t.match_expressions.iter().flatten());
    let affinity = affinity.map(|r| (r.key.clone(), in_words(r)));
    selector.chain(affinity).filter(|(key, _)| which(key)).collect()
}

/// The taints of a node that keep a pod off it. A node that is cordoned or not Ready has the taint that Kubernetes gives
/// it for that, be it there yet or not.
pub fn untolerated(pod: &PodSpec, node: &NodeView) -> Vec<TaintView> {
    let mut taints: Vec<TaintView> = node.taints.clone();
    for (is, key) in [(node.unschedulable, CORDONED), (!node.ready, NOT_READY)] {
        if is && !taints.iter().any(|t| t.key == key && t.effect == "NoSchedule") {
            taints.push(TaintView { key: key.to_owned(), value: String::new(), effect: "NoSchedule".to_owned() });
        }
    }
    let tolerations = pod.tolerations.as_deref().unwrap_or_default();
    taints.retain(|t| {
        matches!(t.effect.as_str(), "NoSchedule" | "NoExecute") && !tolerations.iter().any(|by| tolerates(by, t))
    });
    taints
}

fn terms(pod: &PodSpec) -> Option<&[NodeSelectorTerm]> {
    let affinity = pod.affinity.as_ref()?.node_affinity.as_ref()?;
    let required = affinity.required_during_scheduling_ignored_during_execution.as_ref()?;
    Some(&required.node_selector_terms)
}

/// A term without requirements allows no node.
fn term_holds(term: &NodeSelectorTerm, node: &NodeView, ignored: &impl Fn(&str) -> bool) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    let label = |r: &NodeSelectorRequirement| node.labels.get(&r.key).map(String::as_str);
    let field = |r: &NodeSelectorRequirement| (r.key == "metadata.name").then_some(node.name.as_str());
    !(expressions.is_empty() && fields.is_empty())
        && expressions.iter().filter(|r| !ignored(&r.key)).all(|r| holds(r, label(r)))
        && fields.iter().all(|r| holds(r, field(r)))
}

fn holds(requirement: &NodeSelectorRequirement, there: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let listed = || there.is_some_and(|t| values.iter().any(|v| v == t));
    let compares = |wanted| there.zip(values.first()).is_some_and(|(t, v)| compare(t, v) == Some(wanted));
    match requirement.operator.as_str() {
        "In" => listed(),
        "NotIn" => !listed(),
        "Exists" => there.is_some(),
        "DoesNotExist" => there.is_none(),
        "Gt" => compares(Ordering::Greater),
        "Lt" => compares(Ordering::Less),
        _ => false,
    }
}

/// As whole numbers; anything else cannot be compared.
fn compare(there: &str, wanted: &str) -> Option<Ordering> {
    Some(there.parse::<i64>().ok()?.cmp(&wanted.parse().ok()?))
}

fn in_words(requirement: &NodeSelectorRequirement) -> String {
    let values = requirement.values.as_deref().unwrap_or_default();
    let (key, operator) = (&requirement.key, &requirement.operator);
    match values {
        [] => format!("{key} {operator}"),
        [one] if operator == "In" => format!("{key}={one}"),
        many => format!("{key} {operator} ({})", many.join(", ")),
    }
}

/// An empty effect is every effect; an empty key (with `Exists`) is every key.
fn tolerates(toleration: &Toleration, taint: &TaintView) -> bool {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let (effect, key, value) = (text(&toleration.effect), text(&toleration.key), text(&toleration.value));
    if (!effect.is_empty() && effect != taint.effect) || (!key.is_empty() && key != taint.key) {
        return false;
    }
    match text(&toleration.operator).as_str() {
        "Exists" => true,
        "" | "Equal" => value == taint.value,
        "Gt" => compare(&taint.value, &value) == Some(Ordering::Greater),
        "Lt" => compare(&taint.value, &value) == Some(Ordering::Less),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node() -> NodeView {
        NodeView {
            name: "n1".into(),
            labels: [("zone", "a"), ("gpus", "4"), ("model", "T4")].map(|(k, v)| (k.into(), v.into())).into(),
            ready: true,
            ..NodeView::default()
        }
    }

    fn pod(text: &str) -> PodSpec {
        serde_saphyr::from_str(&format!("{{containers: [], {text}}}")).unwrap_or_else(|e| panic!("{text}: {e}"))
    }

    fn with_terms(terms: &str) -> PodSpec {
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        pod(&format!("affinity: {{nodeAffinity: {{{required}: {{nodeSelectorTerms: [{terms}]}}}}}}"))
    }

    #[test]
    fn node_selectors() {
        for (text, yes) in [
            ("", true),
            ("nodeSelector: {}", true),
            ("nodeSelector: {zone: a}", true),
            ("nodeSelector: {zone: a, model: T4}", true),
            ("nodeSelector: {zone: b}", false),
            ("nodeSelector: {zone: a, disk: ssd}", false),
            ("nodeName: n1", true),
            ("nodeName: n2", false),
            ("affinity: {}", true),
            (
                "affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchExpressions: [{key: zone, operator: In, values: [b]}]}}]}}",
                true,
            ),
        ] {
            assert_eq!(selects(&pod(text), &node(), |_| false), yes, "{text}");
        }
        assert!(selects(&pod("nodeSelector: {zone: a, model: A100}"), &node(), |key| key == "model"));
        assert!(!selects(&pod("nodeSelector: {zone: b, model: A100}"), &node(), |key| key == "model"));
    }

    #[test]
    fn required_affinity() {
        for (requirement, yes) in [
            ("key: zone, operator: In, values: [b, a]", true),
            ("key: zone, operator: In, values: [b]", false),
            ("key: disk, operator: In, values: [b]", false),
            ("key: zone, operator: NotIn, values: [b]", true),
            ("key: zone, operator: NotIn, values: [b, a]", false),
            ("key: disk, operator: NotIn, values: [b]", true),
            ("key: zone, operator: Exists", true),
            ("key: disk, operator: Exists", false),
            ("key: zone, operator: DoesNotExist", false),
            ("key: disk, operator: DoesNotExist", true),
            ("key: gpus, operator: Gt, values: ['3']", true),
            ("key: gpus, operator: Gt, values: ['4']", false),
            ("key: gpus, operator: Lt, values: ['5']", true),
            ("key: gpus, operator: Lt, values: ['4']", false),
            ("key: zone, operator: Gt, values: ['4']", false),
            ("key: disk, operator: Lt, values: ['4']", false),
            ("key: zone, operator: Near, values: [a]", false),
        ] {
            let pod = with_terms(&format!("{{matchExpressions: [{{{requirement}}}]}}"));
            assert_eq!(selects(&pod, &node(), |_| false), yes, "{requirement}");
        }
        let (zone_a, zone_b) = ("{key: zone, operator: In, values: [a]}", "{key: zone, operator: In, values: [b]}");
        for (terms, yes) in [
            (format!("{{matchExpressions: [{zone_b}]}}, {{matchExpressions: [{zone_a}]}}"), true),
            (format!("{{matchExpressions: [{zone_b}, {zone_a}]}}"), false),
            (String::new(), false),
            ("{}".to_owned(), false),
            (format!("{{}}, {{matchExpressions: [{zone_a}]}}"), true),
            ("{matchFields: [{key: metadata.name, operator: In, values: [n1]}]}".to_owned(), true),
            ("{matchFields: [{key: metadata.name, operator: NotIn, values: [n1]}]}".to_owned(), false),
        ] {
            assert_eq!(selects(&with_terms(&terms), &node(), |_| false), yes, "{terms}");
        }
        let pod = with_terms("{matchExpressions: [{key: zone, operator: In, values: [b]}]}");
        assert!(selects(&pod, &node(), |key| key == "zone"), "nothing else is required");
    }

    #[test]
    fn taints() {
        let taint = |text: &str| {
            let [key, value, effect] = text.split(' ').collect::<Vec<_>>().try_into().unwrap();
            TaintView { key: key.into(), value: value.into(), effect: effect.into() }
        };
        for (tainted, tolerations, stands) in [
            ("gpu yes NoSchedule", "", false),
            ("gpu yes NoExecute", "", false),
            ("gpu yes PreferNoSchedule", "", true),
            ("gpu yes NoSchedule", "{operator: Exists}", true),
            ("gpu yes NoExecute", "{operator: Exists}", true),
            ("gpu yes NoSchedule", "{operator: Exists, effect: NoExecute}", false),
            ("gpu yes NoSchedule", "{key: gpu, operator: Exists}", true),
            ("gpu yes NoSchedule", "{key: cpu, operator: Exists}", false),
            ("gpu yes NoSchedule", "{key: gpu, value: 'yes'}", true),
            ("gpu yes NoSchedule", "{key: gpu, operator: Equal, value: 'yes', effect: NoSchedule}", true),
            ("gpu yes NoSchedule", "{key: gpu, operator: Equal, value: 'no'}", false),
            ("gpu yes NoSchedule", "{key: gpu}", false),
            ("gpu yes NoSchedule", "{key: gpu, operator: Equal, value: 'yes', effect: NoExecute}", false),
            ("gpu yes NoSchedule", "{key: cpu, operator: Exists}, {key: gpu, operator: Exists}", true),
            ("slow 7 NoSchedule", "{key: slow, operator: Lt, value: '8'}", true),
            ("slow 7 NoSchedule", "{key: slow, operator: Gt, value: '8'}", false),
            ("slow 7 NoSchedule", "{key: slow, operator: Near, value: '8'}", false),
        ] {
            let node = NodeView { taints: vec![taint(tainted)], ..node() };
            let left = untolerated(&pod(&format!("tolerations: [{tolerations}]")), &node);
            assert_eq!(left.is_empty(), stands, "{tainted} by {tolerations}");
        }
    }

    #[test]
    fn cordoned_and_unready_nodes() {
        let (plain, all) = (pod(""), pod("tolerations: [{operator: Exists}]"));
        let (cordoned, unready) = (NodeView { unschedulable: true, ..node() }, NodeView { ready: false, ..node() });
        assert_eq!(untolerated(&plain, &cordoned)[0].key, "node.kubernetes.io/unschedulable");
        assert_eq!(untolerated(&plain, &unready)[0].key, "node.kubernetes.io/not-ready");
        assert!(untolerated(&all, &cordoned).is_empty() && untolerated(&all, &unready).is_empty());
        let told = TaintView { key: CORDONED.into(), effect: "NoSchedule".into(), value: String::new() };
        let marked = NodeView { taints: vec![told], ..cordoned };
        assert_eq!(untolerated(&plain, &marked).len(), 1, "said once");
    }

    #[test]
    fn requirements_in_words() {
        let pod = with_terms(
            "{matchExpressions: [{key: a.gpu, operator: In, values: [x]}, {key: b.gpu, operator: NotIn, values: [x, y]}, {key: zone, operator: Exists}]}",
        );
        let words: Vec<String> = requirements(&pod, |k| k.contains("gpu")).into_iter().map(|(_, w)| w).collect();
        assert_eq!(words, ["a.gpu=x", "b.gpu NotIn (x, y)"]);
    }
}
