//! The CustomResourceDefinitions of the four kinds.
//!
//! Facts that are API and taken from KubeRay: names, categories, no short names, printer columns, versions. v1alpha1 is
//! served because old Ray images ask for it; its schema is v1's, so that a write through it loses nothing.

use serde_json::{Value, json};

use super::constraints::{MAX_RAYCLUSTER_NAME, MAX_RAYCRONJOB_NAME, MAX_RAYJOB_NAME, MAX_RAYSERVICE_NAME, name_rule};
use super::schema::Definitions;
use super::{raycluster, raycronjob, rayjob, rayservice};

/// What a client is told who uses v1alpha1.
const DEPRECATION: &str = "ray.io/v1alpha1 is deprecated: use ray.io/v1, which takes the same fields";

/// A column of `kubectl get`: name, type, JSON path, and whether it is for `-o wide` only.
type Column = (&'static str, &'static str, &'static str, bool);

struct Kind {
    kind: &'static str,
    plural: &'static str,
    max_name: usize,
    served_as_v1alpha1: bool,
    columns: &'static [Column],
    spec: Value,
    status: Value,
}

const READY: Column = ("ready", "string", ".status.conditions[?(@.type==\"Ready\")].status", false);
const REASON: Column = ("reason", "string", ".status.conditions[?(@.type==\"Ready\")].reason", true);
const AGE: Column = ("age", "date", ".metadata.creationTimestamp", false);

const RAYCLUSTER_COLUMNS: &[Column] = &[
    ("desired workers", "integer", ".status.desiredWorkerReplicas", false),
    ("available workers", "integer", ".status.availableWorkerReplicas", false),
    ("cpus", "string", ".status.desiredCPU", false),
    ("memory", "string", ".status.desiredMemory", false),
    ("gpus", "string", ".status.desiredGPU", false),
    ("tpus", "string", ".status.desiredTPU", true),
    ("status", "string", ".status.state", false),
    AGE,
    ("head pod IP", "string", ".status.head.podIP", true),
    ("head service IP", "string", ".status.head.serviceIP", true),
    READY,
    REASON,
];
const RAYJOB_COLUMNS: &[Column] = &[
    ("job status", "string", ".status.jobStatus", false),
    ("deployment status", "string", ".status.jobDeploymentStatus", false),
    ("ray cluster name", "string", ".status.rayClusterName", false),
    ("start time", "string", ".status.startTime", false),
    ("end time", "string", ".status.endTime", false),
    AGE,
];
const RAYSERVICE_COLUMNS: &[Column] = &[
    ("service status", "string", ".status.serviceStatus", false),
    ("num serve endpoints", "string", ".status.numServeEndpoints", false),
    READY,
    REASON,
];
const RAYCRONJOB_COLUMNS: &[Column] = &[
    ("schedule", "string", ".spec.schedule", false),
    ("timezone", "string", ".spec.timeZone", false),
    ("last schedule", "date", ".status.lastScheduleTime", false),
    AGE,
    ("suspend", "boolean", ".spec.suspend", false),
];

/// The four CustomResourceDefinitions, ready to be applied. The same on every call.
pub fn all() -> Vec<Value> {
    let mut d = Definitions::new();
    let kinds = [
        Kind {
            kind: "RayCluster",
            plural: "rayclusters",
            max_name: MAX_RAYCLUSTER_NAME,
            served_as_v1alpha1: true,
            columns: RAYCLUSTER_COLUMNS,
            spec: d.schema::<raycluster::RayClusterSpec>(),
            status: d.schema::<raycluster::RayClusterStatus>(),
        },
        Kind {
            kind: "RayJob",
            plural: "rayjobs",
            max_name: MAX_RAYJOB_NAME,
            served_as_v1alpha1: true,
            columns: RAYJOB_COLUMNS,
            spec: d.schema::<rayjob::RayJobSpec>(),
            status: d.schema::<rayjob::RayJobStatus>(),
        },
        Kind {
            kind: "RayService",
            plural: "rayservices",
            max_name: MAX_RAYSERVICE_NAME,
            served_as_v1alpha1: true,
            columns: RAYSERVICE_COLUMNS,
            spec: d.schema::<rayservice::RayServiceSpec>(),
            status: d.schema::<rayservice::RayServiceStatus>(),
        },
        Kind {
            kind: "RayCronJob",
            plural: "raycronjobs",
            max_name: MAX_RAYCRONJOB_NAME,
            served_as_v1alpha1: false,
            columns: RAYCRONJOB_COLUMNS,
            spec: d.schema::<raycronjob::RayCronJobSpec>(),
            status: d.schema::<raycronjob::RayCronJobStatus>(),
        },
    ];
    kinds.iter().map(definition).collect()
}

fn definition(kind: &Kind) -> Value {
    let mut versions = vec![version(kind, "v1")];
    if kind.served_as_v1alpha1 {
        let mut old = version(kind, "v1alpha1");
        old["deprecated"] = true.into();
        old["deprecationWarning"] = DEPRECATION.into();
        old["storage"] = false.into();
        versions.push(old);
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{}.ray.io", kind.plural)},
        "spec": {
            "group": "ray.io",
            "names": {
                "categories": ["all"],
                "kind": kind.kind,
                "listKind": format!("{}List", kind.kind),
                "plural": kind.plural,
                "singular": kind.kind.to_lowercase(),
            },
            "scope": "Namespaced",
            "versions": versions,
        },
    })
}

fn version(kind: &Kind, name: &str) -> Value {
    let column = |&(name, kind, path, wide): &Column| {
        let mut column = json!({"name": name, "type": kind, "jsonPath": path});
        if wide {
            column["priority"] = 1.into();
        }
        column
    };
    json!({
        "name": name,
        "served": true,
        "storage": true,
        "subresources": {"status": {}},
        "additionalPrinterColumns": kind.columns.iter().map(column).collect::<Vec<_>>(),
        "schema": {"openAPIV3Schema": {
            "type": "object",
            "required": ["spec"],
            "properties": {
                "apiVersion": {"type": "string"},
                "kind": {"type": "string"},
                "metadata": {"type": "object", "properties": {"name": {"type": "string"}}},
                "spec": kind.spec,
                "status": kind.status,
            },
            "x-kubernetes-validations": [name_rule(kind.kind, kind.max_name)],
        }},
    })
}

/// One CustomResourceDefinition as a YAML document, keys in alphabetical order. Indented by one space: at more than
/// twenty levels the second would be a third of the file.
pub fn to_yaml(definition: &Value) -> String {
    let options = serde_saphyr::ser_options! { indent_step: 1 };
    serde_saphyr::to_string_with_options(definition, options).expect("JSON can be written as YAML")
}

/// What belongs into `crds/`: file name (as KubeRay's) and text.
pub fn yaml_files() -> Vec<(String, String)> {
    let file = |definition: &Value| {
        let plural = definition["spec"]["names"]["plural"].as_str().unwrap_or_default();
        (format!("ray.io_{plural}.yaml"), to_yaml(definition))
    };
    all().iter().map(file).collect()
}
