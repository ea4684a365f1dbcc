//! How a Rust type becomes a schema that a CRD may hold.
//!
//! The types derive their schemas; Kubernetes' own types are taken from its OpenAPI instead, where lists have their
//! keys; [`super::constraints`] is laid over; and every reference is replaced by what it points to.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

use super::constraints::constraints;

/// Definitions of the Kubernetes types that ours embed, written by `tools/kubernetes-schema.py`.
const KUBERNETES: &str = include_str!("kubernetes-schema.json");

/// Every type by name, ours with their constraints.
pub(super) struct Definitions(Map<String, Value>);

impl Definitions {
    /// Kubernetes' definitions with those constraints that concern them.
    pub(super) fn new() -> Self {
        let mut definitions: Map<String, Value> =
            serde_json::from_str(KUBERNETES).expect("kubernetes-schema.json is a map of schemas");
        let all = constraints();
        for (name, definition) in &mut definitions {
            lay_over(definition, &all[name]);
        }
        Definitions(definitions)
    }

    /// The structural schema of `T`.
    pub(super) fn schema<T: JsonSchema>(&mut self) -> Value {
        let generator = SchemaSettings::draft2020_12().into_generator();
        let mut root = Value::from(generator.into_root_schema_for::<T>());
        let nested = root["$defs"].take();
        let all = constraints();
        let name = T::schema_name();
        for (name, definition) in nested.as_object().into_iter().flatten().chain([(&name.to_string(), &root)]) {
            if !name.starts_with("io.k8s.") {
                let mut definition = cleaned(definition);
                lay_over(&mut definition, &all[name]);
                self.0.insert(name.clone(), definition);
            }
        }
        self.resolved(&self.0[name.as_ref()])
    }

    /// `schema` with every reference replaced; what stands beside a reference wins over what it points to.
    fn resolved(&self, schema: &Value) -> Value {
        match schema {
            Value::Object(fields) => {
                let mut out = match fields.get("$ref").and_then(Value::as_str) {
                    Some(name) => self.resolved(self.0.get(name).unwrap_or_else(|| panic!("no definition of {name}"))),
                    None => Value::Object(Map::new()),
                };
                let rest = fields.iter().filter(|(k, _)| *k != "$ref").map(|(k, v)| (k.clone(), self.resolved(v)));
                lay_over(&mut out, &Value::Object(rest.collect()));
                out
            }
            Value::Array(items) => items.iter().map(|v| self.resolved(v)).collect(),
            other => other.clone(),
        }
    }
}

/// What schemars derives, without what a structural schema forbids: titles, defaults of Rust types, `null` as a type.
/// References become bare names.
fn cleaned(schema: &Value) -> Value {
    let Value::Object(fields) = schema else {
        return schema.clone();
    };
    let mut out = Map::new();
    for (key, value) in fields {
        match key.as_str() {
            "$schema" | "$defs" | "title" | "default" => {}
            "$ref" => {
                let name = value.as_str().and_then(|s| s.rsplit('/').next()).unwrap_or_default();
                out.insert("$ref".into(), name.into());
            }
            "type" => {
                let one = value.as_array().and_then(|types| types.iter().find(|t| *t != "null"));
                out.insert("type".into(), one.unwrap_or(value).clone());
            }
            "anyOf" => {
                let other = value.as_array().into_iter().flatten().find(|s| s["type"] != "null");
                let other = cleaned(other.expect("anyOf of an optional field"));
                out.extend(other.as_object().cloned().unwrap_or_default());
            }
            "properties" => {
                let properties = value.as_object().into_iter().flatten();
                out.insert("properties".into(), properties.map(|(k, v)| (k.clone(), cleaned(v))).collect());
            }
            _ => {
                out.insert(key.clone(), cleaned(value));
            }
        }
    }
    Value::Object(out)
}

/// Merges objects field by field; anything else in `over` replaces what is there. `null` changes nothing.
fn lay_over(base: &mut Value, over: &Value) {
    match (base, over) {
        (_, Value::Null) => {}
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                lay_over(base.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (base, over) => *base = over.clone(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use k8s_openapi::api::core::v1::{PodTemplateSpec, Service};
    use k8s_openapi::api::networking::v1::{IngressTLS, NetworkPolicyEgressRule, NetworkPolicyIngressRule};

    use super::*;

    fn fields(schema: &Value) -> BTreeSet<&str> {
        schema["properties"].as_object().into_iter().flatten().map(|(k, _)| k.as_str()).collect()
    }

    /// A field that the types lack would be lost between the user's template and the pod; one that the schema lacks
    /// could not be used.
    #[test]
    fn kubernetes_types_have_the_fields_of_the_schema() {
        let committed: Map<String, Value> = serde_json::from_str(KUBERNETES).unwrap();
        let mut generator = SchemaSettings::draft2020_12().into_generator();
        generator.subschema_for::<PodTemplateSpec>();
        generator.subschema_for::<Service>();
        generator.subschema_for::<IngressTLS>();
        generator.subschema_for::<NetworkPolicyIngressRule>();
        generator.subschema_for::<NetworkPolicyEgressRule>();
        generator.subschema_for::<k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition>();
        let derived = generator.definitions();
        let mut compared = 0;
        for (name, schema) in &committed {
            // Cut down on purpose.
            if name.ends_with(".ObjectMeta") || fields(schema).is_empty() {
                continue;
            }
            assert_eq!(fields(&derived[name]), fields(schema), "{name}");
            compared += 1;
        }
        assert!(compared > 100, "only {compared} types were compared");
    }
}
