//! `crds/` holds what the code generates, and that is what an API server takes. `UPDATE_CRDS=1 cargo test --test api`
//! writes the files anew.

use std::path::Path;

use ray_operator::api::crd;
use serde_json::Value;

#[test]
fn committed_files_are_what_the_code_generates() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("crds");
    for (name, text) in crd::yaml_files() {
        let path = folder.join(&name);
        if std::env::var_os("UPDATE_CRDS").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(committed == text, "crds/{name} differs from the code: run UPDATE_CRDS=1 cargo test --test api");
    }
}

#[test]
fn yaml_says_what_the_json_says() {
    for (definition, (name, text)) in crd::all().iter().zip(crd::yaml_files()) {
        assert!(serde_saphyr::from_str::<Value>(&text).unwrap() == *definition, "{name} is read back differently");
    }
}

/// etcd takes 1.5 MiB in one request; the API server stores JSON.
#[test]
fn definitions_fit_into_etcd_twice() {
    for definition in crd::all() {
        let bytes = definition.to_string().len();
        assert!(bytes < 700_000, "{} has {bytes} bytes", definition["metadata"]["name"]);
    }
}

#[test]
fn both_versions_have_the_same_schema() {
    for definition in crd::all() {
        let versions = definition["spec"]["versions"].as_array().unwrap();
        let cron = definition["spec"]["names"]["kind"] == "RayCronJob";
        assert_eq!(versions.len(), if cron { 1 } else { 2 });
        for version in versions {
            assert!(version["schema"] == versions[0]["schema"]);
        }
    }
}

/// What apiextensions demands of a structural schema, and what server-side apply needs of lists.
#[test]
fn schemas_are_structural() {
    for definition in crd::all() {
        let name = definition["spec"]["names"]["kind"].as_str().unwrap();
        check(&definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"], name);
    }
}

fn check(schema: &Value, at: &str) {
    let fields = schema.as_object().unwrap_or_else(|| panic!("{at} is no schema"));
    for forbidden in ["$ref", "allOf", "anyOf", "oneOf", "not", "title", "definitions", "$defs"] {
        assert!(!fields.contains_key(forbidden), "{at} has {forbidden}");
    }
    if fields.get("x-kubernetes-int-or-string") == Some(&true.into()) {
        assert!(!fields.contains_key("type"), "{at} is int-or-string and has a type");
        return;
    }
    let kind = fields.get("type").and_then(Value::as_str).unwrap_or_else(|| panic!("{at} has no single type"));
    assert!(!(fields.contains_key("properties") && fields.contains_key("additionalProperties")), "{at}");
    if let Some(format) = fields.get("format").and_then(Value::as_str) {
        assert!(["int32", "int64", "double", "date-time", "byte"].contains(&format), "{at} has format {format}");
    }
    for rule in fields.get("x-kubernetes-validations").and_then(Value::as_array).into_iter().flatten() {
        assert!(!rule["message"].as_str().unwrap().is_empty(), "{at}: {rule}");
        assert!(rule["message"].as_str().unwrap().lines().count() == 1, "{at}: {rule}");
    }
    for key in fields.get("required").and_then(Value::as_array).into_iter().flatten() {
        assert!(
            schema["properties"].get(key.as_str().unwrap()).is_some(),
            "{at} requires {key}, which it does not have"
        );
    }
    if kind == "array" {
        let items = &schema["items"];
        check(items, &format!("{at}[]"));
        assert_eq!(
            schema["x-kubernetes-list-type"] == "map",
            fields.contains_key("x-kubernetes-list-map-keys"),
            "{at}"
        );
        for key in fields.get("x-kubernetes-list-map-keys").and_then(Value::as_array).into_iter().flatten() {
            let required = items["required"].as_array().is_some_and(|r| r.contains(key));
            let defaulted = !items["properties"][key.as_str().unwrap()]["default"].is_null();
            assert!(required || defaulted, "{at}: list key {key} is neither required nor has a default");
        }
    }
    for (key, property) in fields.get("properties").and_then(Value::as_object).into_iter().flatten() {
        check(property, &format!("{at}.{key}"));
    }
    if let Some(values) = fields.get("additionalProperties") {
        check(values, &format!("{at}.*"));
    }
}

#[test]
fn lists_of_a_pod_template_have_their_keys() {
    let all = crd::all();
    let spec = &all[0]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
    let pod = |template: &'static str| match template {
        "head" => &spec["headGroupSpec"]["properties"]["template"]["properties"]["spec"]["properties"],
        _ => &spec["workerGroupSpecs"]["items"]["properties"]["template"]["properties"]["spec"]["properties"],
    };
    for template in ["head", "worker"] {
        let container = &pod(template)["containers"]["items"]["properties"];
        for (list, keys) in [
            (&pod(template)["containers"], vec!["name"]),
            (&pod(template)["initContainers"], vec!["name"]),
            (&pod(template)["volumes"], vec!["name"]),
            (&pod(template)["imagePullSecrets"], vec!["name"]),
            (&pod(template)["hostAliases"], vec!["ip"]),
            (&container["env"], vec!["name"]),
            (&container["ports"], vec!["containerPort", "protocol"]),
            (&container["volumeMounts"], vec!["mountPath"]),
        ] {
            assert_eq!(list["x-kubernetes-list-map-keys"], serde_json::json!(keys));
        }
        assert_eq!(container["ports"]["items"]["properties"]["protocol"]["default"], "TCP");
    }
    let service = &spec["headGroupSpec"]["properties"]["headService"]["properties"]["spec"]["properties"];
    assert_eq!(service["ports"]["x-kubernetes-list-map-keys"], serde_json::json!(["port", "protocol"]));
    // The order of groups is the user's: Ray's autoscaler counts on it, so the list is one value.
    assert!(spec["workerGroupSpecs"]["x-kubernetes-list-type"].is_null());
}
