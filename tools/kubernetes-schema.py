#!/usr/bin/env python3
"""Writes src/api/kubernetes-schema.json: the Kubernetes types that Ray's kinds embed, as structural schemas.

Source: the OpenAPI v3 files inside the Go module k8s.io/kubernetes, fetched by the Go client. Unlike the schemas of
client libraries they carry list types and map keys, without which server-side apply would treat a pod template's
containers as one indivisible value. VERSION must have the fields of k8s-openapi's feature in Cargo.toml; a test
compares them.

Usage: tools/kubernetes-schema.py [module directory]
"""
import json
import pathlib
import subprocess
import sys

VERSION = "v1.37.2"
CORE = "io.k8s.api.core.v1."
META = "io.k8s.apimachinery.pkg.apis.meta.v1."
NET = "io.k8s.api.networking.v1."
ROOTS = [CORE + n for n in ("PodTemplateSpec", "Service", "EnvVar", "EnvFromSource", "EnvVarSource",
                            "ResourceRequirements", "SecurityContext", "VolumeMount")]
ROOTS += [NET + n for n in ("IngressTLS", "NetworkPolicyIngressRule", "NetworkPolicyEgressRule")]
ROOTS += [META + "Condition"]
KEPT = ("format", "items", "required", "type", "additionalProperties", "enum", "x-kubernetes-list-type",
        "x-kubernetes-list-map-keys", "x-kubernetes-map-type")
STRING = {"type": "string"}
STRINGS = {"type": "object", "additionalProperties": STRING}
NUMBER = r"([0-9]+(\.[0-9]*)?|\.[0-9]+)"
# Types whose OpenAPI cannot stand in a CRD, or says less than the API server checks.
SPECIAL = {
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {"x-kubernetes-int-or-string": True},
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {
        "x-kubernetes-int-or-string": True,
        "pattern": rf"^[+-]?{NUMBER}([KMGTPE]i|[numkMGTPE]|[eE][+-]?{NUMBER})?$",
    },
    # Of an embedded object's metadata the API server would keep only what is named here.
    META + "ObjectMeta": {
        "type": "object",
        "properties": {"name": STRING, "namespace": STRING, "labels": STRINGS, "annotations": STRINGS,
                       "finalizers": {"type": "array", "items": STRING}},
    },
}


def reference(schema):
    """The name of the definition that a schema points to, if it does."""
    if "$ref" in schema:
        return schema["$ref"].rsplit("/", 1)[1]
    return reference(schema["allOf"][0]) if len(schema.get("allOf", [])) == 1 else None


def structural(schema):
    """One schema as a CRD may hold it: no description, references by bare name, defaults where Kubernetes has them."""
    name = reference(schema)
    if name:
        return {"$ref": name}
    out = {k: schema[k] for k in KEPT if k in schema}
    for nested in ("items", "additionalProperties"):
        if isinstance(out.get(nested), dict):
            out[nested] = structural(out[nested])
    if "properties" in schema:
        required = schema.get("required", [])
        out["properties"] = {}
        for key, value in schema["properties"].items():
            field = structural(value)
            # The zero value of a required field is an artefact of Go: as a CRD default it would undo "required".
            if value.get("default") not in (None, {}) and key not in required:
                field["default"] = value["default"]
            out["properties"][key] = field
    unknown = set(schema) - set(KEPT) - {"properties", "default", "description", "allOf"}
    bad = {k for k in unknown if not k.startswith("x-kubernetes-")}
    if bad:
        sys.exit(f"do not know what to do with {sorted(bad)} in {json.dumps(schema)[:200]}")
    return out


def main():
    if len(sys.argv) > 1:
        module = sys.argv[1]
    else:
        answer = subprocess.run(["go", "mod", "download", "-json", f"k8s.io/kubernetes@{VERSION}"],
                                check=True, capture_output=True, text=True)
        module = json.loads(answer.stdout)["Dir"]
    source = {}
    for file in ("api__v1_openapi.json", "apis__networking.k8s.io__v1_openapi.json"):
        text = (pathlib.Path(module) / "api/openapi-spec/v3" / file).read_text()
        source.update(json.loads(text)["components"]["schemas"])
    done, todo = {}, list(ROOTS)
    while todo:
        name = todo.pop()
        if name in done:
            continue
        done[name] = SPECIAL[name] if name in SPECIAL else structural(source[name])
        text = json.dumps(done[name])
        todo += [part.split('"', 1)[0] for part in text.split('"$ref": "')[1:]]
    lines = [f"{json.dumps(name)}: {json.dumps(done[name], sort_keys=True)}" for name in sorted(done)]
    target = pathlib.Path(__file__).parent.parent / "src/api/kubernetes-schema.json"
    target.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{target.name}: {len(done)} definitions of {VERSION}")


main()
