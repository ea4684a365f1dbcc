#!/usr/bin/env bash
# Renders the Helm chart with many sets of values and checks the facts that matter. Needs helm and python3, no cluster.
#   tests/chart.sh            offline
#   tests/chart.sh --server   also sends each rendering to the API server of the current kubeconfig, as a dry run
# HELM names another helm binary.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
chart=$root/charts/ray-operator
helm=${HELM:-helm}
server=no
[ "${1:-}" = --server ] && server=yes
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
checks=0
set_name=

command -v "$helm" >/dev/null || { echo "tests/chart.sh: no helm: install Helm 3, or set HELM to its path" >&2; exit 2; }

fail() {
  failures=$((failures + 1))
  printf 'FAIL [%s] %s\n' "$set_name" "$*" >&2
}

# helm says on every call that crds/ is a link: that is meant so.
quiet() { grep -v 'found symbolic link in path' >&2 || true; }

# A scratch chart that turns YAML into JSON, so that no YAML parser is needed.
mkdir -p "$work/json/templates"
printf 'apiVersion: v2\nname: json\nversion: 0.0.0\n' > "$work/json/Chart.yaml"
cat > "$work/json/templates/out.yaml" <<'TEMPLATE'
{{- $docs := list -}}
{{- range regexSplit "(?m)^---\\s*$" (.Files.Get "in.yaml") -1 -}}
{{- $doc := fromYaml . -}}
{{- if $doc -}}{{- $docs = append $docs $doc -}}{{- end -}}
{{- end -}}
{{ dict "kind" "List" "items" $docs | toJson }}
TEMPLATE
to_json() { "$helm" template json "$work/json" | grep -v -e '^---' -e '^#'; }

# render <name of the set> [helm arguments]: the result is what `expect` looks at.
render() {
  set_name=$1
  shift
  if ! "$helm" template "${release:-ray-operator}" "$chart" --namespace ray-system "$@" > "$work/json/in.yaml" 2> "$work/err"; then
    fail "does not render: $(quiet < "$work/err" 2>&1)"
    echo '{"items":[]}' > "$work/objects.json"
    return
  fi
  to_json > "$work/objects.json"
  if [ $server = yes ]; then
    # Kinds of others may be missing on the server.
    python3 - "$work/objects.json" > "$work/send.json" <<'PYTHON'
import json, sys
objects = [o for o in json.load(open(sys.argv[1]))["items"] if o["kind"] != "ServiceMonitor"]
print(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
PYTHON
    checks=$((checks + 1))
    kubectl apply --dry-run=server --validate=strict -f "$work/send.json" > "$work/err" 2>&1 \
      || fail "the API server refuses it: $(cat "$work/err")"
  fi
}

# expect <fact> <python expression over the rendered objects>
expect() {
  checks=$((checks + 1))
  python3 - "$work/objects.json" "$2" <<'PYTHON' || fail "$1: not so: $2"
import json, sys
objects = json.load(open(sys.argv[1]))["items"]
def find(kind): return [o for o in objects if o["kind"] == kind]
def one(kind):
    found = find(kind)
    if len(found) != 1:
        sys.exit(f"{len(found)} objects of kind {kind}, expected one")
    return found[0]
def names(kind): return sorted(o["metadata"]["name"] for o in find(kind))
def pod(): return one("Deployment")["spec"]["template"]["spec"]
def box(): return pod()["containers"][0]
def args(): return box()["args"]
def may(rules, group, resource):
    return sorted({v for r in rules if group in r["apiGroups"] and resource in r["resources"] for v in r["verbs"]})
def cluster_rules(): return [o for o in find("ClusterRole") if o["metadata"]["name"] == "ray-operator"][0]["rules"]
sys.exit(0 if eval(sys.argv[2]) else 1)
PYTHON
}

# refuse <words of the error> [helm arguments]
refuse() {
  set_name="refused: ${*:2}"
  checks=$((checks + 1))
  if "$helm" template ray-operator "$chart" "${@:2}" > /dev/null 2> "$work/err"; then
    fail "was accepted"
  elif ! grep -qF -- "$1" "$work/err"; then
    fail "the error does not say '$1': $(quiet < "$work/err" 2>&1)"
  fi
}

set_name=crds
for kind in rayclusters rayjobs rayservices raycronjobs; do
  checks=$((checks + 1))
  [ -s "$root/crds/ray.io_$kind.yaml" ] || fail "crds/ray.io_$kind.yaml is missing"
done
[ $failures = 0 ] || exit 1

set_name=lint
checks=$((checks + 1))
"$helm" lint --strict "$chart" > "$work/lint" 2>&1 || fail "$(cat "$work/lint")"

set_name=package
checks=$((checks + 1))
"$helm" package "$chart" --destination "$work" > "$work/out" 2>&1 || fail "$(cat "$work/out")"
mkdir "$work/unpacked" && tar -xmzf "$work"/ray-operator-*.tgz -C "$work/unpacked"
diff -r "$root/crds" "$work/unpacked/ray-operator/crds" > "$work/out" || fail "packaged CRDs differ from crds/: $(cat "$work/out")"

# Helm keeps the whole chart in a Secret of at most 1 MiB, in which it takes about two and a half times this size.
set_name=size
checks=$((checks + 1))
size=$(wc -c < "$(echo "$work"/ray-operator-*.tgz)")
[ "$size" -lt 380000 ] || fail "the package has $size bytes: the release's Secret would not fit"

set_name=versions
checks=$((checks + 1))
want=$(sed -n 's/^version = "\(.*\)"/\1/p' "$root/Cargo.toml" | head -n 1)
grep -qx "appVersion: \"$want\"" "$chart/Chart.yaml" || fail "Cargo.toml says $want, Chart.yaml says: $(grep appVersion "$chart/Chart.yaml")"

set_name=schema
checks=$((checks + 1))
python3 - "$chart/values.schema.json" "$chart/templates/_helpers.tpl" <<'PYTHON' || fail "the schema and the list of known values in _helpers.tpl differ"
import json, re, sys
schema = set(json.load(open(sys.argv[1]))["properties"])
known = set(re.findall(r'"(\w+)"', re.search(r"\$known := list (.*?) -}}", open(sys.argv[2]).read()).group(1)))
if schema != known:
    sys.exit(f"only on one side: {sorted(schema ^ known)}")
PYTHON

render "defaults"
expect "one of each, no more" 'sorted({o["kind"] for o in objects}) == ["ClusterRole", "ClusterRoleBinding", "Deployment", "Role", "RoleBinding", "Service", "ServiceAccount"]'
expect "image" 'box()["image"] == "ray-operator/ray-operator:0.1.0"'
expect "command" 'box()["command"] == ["/ray-operator"] and args()[0] == "run"'
expect "one replica" 'one("Deployment")["spec"]["replicas"] == 1'
expect "safe roll-out" 'one("Deployment")["spec"]["strategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}'
expect "leader election" '"--enable-leader-election=true" in args()'
expect "all namespaces" 'not any(a.startswith("--watch-namespace") for a in args())'
expect "no empty gates" 'not any(a.startswith("--feature-gates") for a in args())'
expect "probes" 'box()["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "health"} and box()["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "health"}'
expect "ports" '{p["name"]: p["containerPort"] for p in box()["ports"]} == {"http": 8080, "health": 8082}'
expect "no root, no writes" 'pod()["securityContext"]["runAsUser"] == 65532 and pod()["securityContext"]["runAsNonRoot"] and box()["securityContext"]["readOnlyRootFilesystem"] and not box()["securityContext"]["allowPrivilegeEscalation"]'
expect "no capabilities" 'box()["securityContext"]["capabilities"] == {"drop": ["ALL"]} and box()["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}'
expect "requests, no CPU limit" 'box()["resources"]["requests"].keys() == {"cpu", "memory"} and "cpu" not in box()["resources"]["limits"]'
expect "grace" 'pod()["terminationGracePeriodSeconds"] == 30'
expect "label for KubeRay tools" 'one("Deployment")["metadata"]["labels"]["app.kubernetes.io/name"] == "kuberay-operator"'
expect "selectors match" 'one("Deployment")["spec"]["selector"]["matchLabels"].items() <= one("Deployment")["spec"]["template"]["metadata"]["labels"].items() and one("Service")["spec"]["selector"] == one("Deployment")["spec"]["selector"]["matchLabels"]'
expect "metrics Service" '[(p["name"], p["port"], p["targetPort"]) for p in one("Service")["spec"]["ports"]] == [("http", 8080, "http")]'
expect "pods" 'may(cluster_rules(), "", "pods") == ["create", "delete", "get", "list", "patch", "watch"]'
expect "services" 'may(cluster_rules(), "", "services") == ["create", "delete", "get", "list", "patch", "watch"]'
expect "rayclusters: only patched, for the finalizer" 'may(cluster_rules(), "ray.io", "rayclusters") == ["get", "list", "patch", "watch"]'
expect "status" 'may(cluster_rules(), "ray.io", "rayclusters/status") == ["get", "patch", "update"]'
expect "blockOwnerDeletion" 'may(cluster_rules(), "ray.io", "rayclusters/finalizers") == ["update"]'
expect "events" 'may(cluster_rules(), "events.k8s.io", "events") == ["create", "patch"]'
expect "nodes are only read" 'may(cluster_rules(), "", "nodes") == ["get", "list", "watch"]'
expect "nothing else" '{r for rule in cluster_rules() for r in rule["resources"]} == {"pods", "pods/resize", "services", "serviceaccounts", "roles", "rolebindings", "secrets", "persistentvolumeclaims", "networkpolicies", "ingresses", "routes", "jobs", "nodes", "rayclusters", "rayclusters/status", "rayclusters/finalizers", "events"}'
expect "no wildcards" 'not any("*" in rule[k] for o in find("ClusterRole") + find("Role") for rule in o["rules"] for k in ("apiGroups", "resources", "verbs"))'
expect "lease in its namespace" 'one("Role")["metadata"]["namespace"] == "ray-system" and one("Role")["rules"][1]["resourceNames"] == ["ray-operator-leader"]'
expect "bound to its account" 'one("ClusterRoleBinding")["subjects"][0] == {"kind": "ServiceAccount", "name": pod()["serviceAccountName"], "namespace": "ray-system"}'
expect "roles for people" 'names("ClusterRole") == ["ray-operator", "ray-operator-editor", "ray-operator-viewer"]'

for key in replicaCount replicas; do
  render "two replicas by $key" --set $key=2
  expect "two" 'one("Deployment")["spec"]["replicas"] == 2'
  expect "disruption budget" 'one("PodDisruptionBudget")["spec"]["maxUnavailable"] == 1 and one("PodDisruptionBudget")["spec"]["selector"]["matchLabels"] == one("Deployment")["spec"]["selector"]["matchLabels"]'
  expect "spread" '[t["topologyKey"] for t in pod()["topologySpreadConstraints"]] == ["kubernetes.io/hostname", "topology.kubernetes.io/zone"]'
done
render "replicaCount wins" --set replicas=3,replicaCount=1
expect "one" 'one("Deployment")["spec"]["replicas"] == 1 and not find("PodDisruptionBudget") and "topologySpreadConstraints" not in pod()'
render "no disruption budget" --set replicas=2,podDisruptionBudget.enabled=false
expect "none" 'not find("PodDisruptionBudget")'

digest=sha256:$(printf '0%.0s' $(seq 64))
render "digest" --set image.digest="$digest",image.tag=x
expect "pinned" 'box()["image"].startswith("ray-operator/ray-operator:x@sha256:000")'

for key in rbac.create rbacEnable; do
  render "no rbac by $key" --set $key=false
  expect "no RBAC objects" 'not [o for o in objects if o["apiVersion"].startswith("rbac.")]'
  expect "but an operator" 'pod()["serviceAccountName"] == "ray-operator" and len(find("ServiceAccount")) == 1'
done

render "single namespace" --set singleNamespaceInstall=true
expect "no cluster-wide objects" 'not find("ClusterRole") and not find("ClusterRoleBinding")'
expect "roles" 'names("Role") == ["ray-operator", "ray-operator-lease"] and all(o["metadata"]["namespace"] == "ray-system" for o in find("Role"))'
expect "no nodes in a Role" 'not any("nodes" in rule["resources"] for o in find("Role") for rule in o["rules"])'
expect "watches its own" '"--watch-namespace=ray-system" in args()'

render "several namespaces" --set singleNamespaceInstall=true,watchNamespace='{a,b}'
expect "a role in each" 'sorted(o["metadata"]["namespace"] for o in find("Role") if o["metadata"]["name"] == "ray-operator") == ["a", "b"]'
expect "bound in each" 'sorted(o["metadata"]["namespace"] for o in find("RoleBinding") if o["metadata"]["name"] == "ray-operator") == ["a", "b"] and all(o["subjects"][0]["namespace"] == "ray-system" for o in find("RoleBinding"))'
expect "watches both" '"--watch-namespace=a,b" in args()'

render "namespaces by a ClusterRole" --set watchNamespace='{a,b}'
expect "ClusterRole" '"ray-operator" in names("ClusterRole") and "--watch-namespace=a,b" in args()'

render "roles by someone else" --set singleNamespaceInstall=true,crNamespacedRbacEnable=false
expect "only the lease" 'names("Role") == ["ray-operator-lease"]'

render "no leader election" --set leaderElectionEnabled=false
expect "recreate" 'one("Deployment")["spec"]["strategy"] == {"type": "Recreate"} and not find("Role") and "--enable-leader-election=false" in args()'

render "service monitor" --set metrics.serviceMonitor.enabled=true,metrics.serviceMonitor.namespace=monitoring,metrics.serviceMonitor.additionalLabels.release=prometheus
expect "monitor" 'one("ServiceMonitor")["metadata"]["namespace"] == "monitoring" and one("ServiceMonitor")["metadata"]["labels"]["release"] == "prometheus"'
expect "finds the Service" 'one("ServiceMonitor")["spec"]["selector"]["matchLabels"].items() <= one("Service")["metadata"]["labels"].items() and one("ServiceMonitor")["spec"]["namespaceSelector"]["matchNames"] == ["ray-system"]'
expect "endpoint" 'one("ServiceMonitor")["spec"]["endpoints"] == [{"port": "http", "path": "/metrics", "interval": "30s", "honorLabels": True}]'

render "configuration" --set configuration.enabled=true,watchNamespace='{a}',configuration.defaultPodLabels.team=x,configuration.defaultContainerEnvs[0].name=A,configuration.defaultContainerEnvs[0].value=b
expect "file" 'args()[:2] == ["run", "--config=/etc/ray-operator/config.yaml"] and not any(a.startswith("--qps") for a in args())'
expect "mounted" 'pod()["volumes"] == [{"name": "config", "configMap": {"name": "ray-operator-config"}}] and box()["volumeMounts"][0]["mountPath"] == "/etc/ray-operator"'
expect "rolls when it changes" '"checksum/config" in one("Deployment")["spec"]["template"]["metadata"]["annotations"]'
python3 -c 'import json,sys; print([o for o in json.load(open(sys.argv[1]))["items"] if o["kind"] == "ConfigMap"][0]["data"]["config.yaml"])' "$work/objects.json" > "$work/json/in.yaml"
to_json > "$work/objects.json"
expect "its contents" '{k: v for k, v in one("Configuration").items()} == {"apiVersion": "config.ray.io/v1alpha1", "kind": "Configuration", "metricsAddr": ":8080", "probeAddr": ":8082", "enableLeaderElection": True, "reconcileConcurrency": 10, "qps": 100, "burst": 200, "enableMetrics": True, "useKubernetesProxy": False, "watchNamespace": "a", "logStdoutEncoder": "json", "defaultPodLabels": {"team": "x"}, "defaultContainerEnvs": [{"name": "A", "value": "b"}]}'

for scheduler in volcano yunikorn kai-scheduler scheduler-plugins; do
  group=
  case $scheduler in
    volcano) group=scheduling.volcano.sh ;;
    scheduler-plugins) group=scheduling.x-k8s.io ;;
  esac
  render "batch scheduler $scheduler" --set batchScheduler.name=$scheduler
  expect "flag" "\"--batch-scheduler=$scheduler\" in args()"
  expect "its PodGroups and no others" "[r['apiGroups'] for r in cluster_rules() if 'podgroups' in r['resources']] == ([['$group']] if '$group' else [])"
done
expect "verbs" 'may(cluster_rules(), "scheduling.x-k8s.io", "podgroups") == ["create", "delete", "get", "list", "patch", "watch"]'
render "the old way to say volcano" --set batchScheduler.enabled=true,singleNamespaceInstall=true
expect "volcano" '"--batch-scheduler=volcano" in args() and any("scheduling.volcano.sh" in r["apiGroups"] for o in find("Role") for r in o["rules"])'
render "batch scheduler in the configuration" --set configuration.enabled=true,batchScheduler.name=yunikorn
expect "in the file" '"batchScheduler: yunikorn" in one("ConfigMap")["data"]["config.yaml"] and not any(a.startswith("--batch-scheduler") for a in args())'

render "proxy" --set useKubernetesProxy=true
expect "flag and right" '"--use-kubernetes-proxy=true" in args() and may(cluster_rules(), "", "services/proxy") == ["get"]'

render "log file" --set logging.baseDir=/var/log/ray,logging.fileName=operator.log,logging.sizeLimit=1Gi,logging.stdoutEncoder=console
expect "flags" '{"--log-file-path=/var/log/ray/operator.log", "--log-file-encoder=json", "--log-stdout-encoder=console"} <= set(args())'
expect "volume" 'pod()["volumes"] == [{"name": "logs", "emptyDir": {"sizeLimit": "1Gi"}}]'

# What a values file written for KubeRay's chart can hold.
cat > "$work/kuberay.yaml" <<'VALUES'
nameOverride: kuberay-operator
fullnameOverride: kuberay-operator
componentOverride: kuberay-operator
replicas: 1
image: {pullPolicy: Always}
imagePullSecrets: [{name: pull}]
nodeSelector: {disk: ssd}
tolerations: [{key: a, operator: Exists}]
affinity: {nodeAffinity: {}}
priorityClassName: system-cluster-critical
labels: {team: x, app.kubernetes.io/name: other}
annotations: {note: "y"}
serviceAccount: {create: true, name: kuberay-operator}
logging: {stdoutEncoder: json, fileEncoder: json, baseDir: "", fileName: "", sizeLimit: ""}
livenessProbe: {initialDelaySeconds: 20, periodSeconds: 7, failureThreshold: 9}
readinessProbe: {initialDelaySeconds: 10, periodSeconds: 5, failureThreshold: 5}
batchScheduler: {enabled: false, name: ""}
configuration: {enabled: false, defaultContainerEnvs: [], headSidecarContainers: []}
featureGates: [{name: RayClusterStatusConditions, enabled: true}, {name: RayCronJob, enabled: false}]
metrics: {enabled: true, serviceMonitor: {enabled: false, interval: 30s, honorLabels: true, additionalLabels: {}, namespace: ""}}
leaderElectionEnabled: true
reconcileConcurrency: 4
kubeClient: {qps: 50.5, burst: 60}
rbacEnable: true
crNamespacedRbacEnable: true
singleNamespaceInstall: false
env: [{name: ENABLE_PROBES_INJECTION, value: "false"}]
resources: {limits: {cpu: 100m, memory: 512Mi}}
podSecurityContext: {}
securityContext: {runAsNonRoot: true}
service: {type: ClusterIP, port: 8080}
VALUES
render "values of KubeRay's chart" --values "$work/kuberay.yaml"
expect "names" 'one("Deployment")["metadata"]["name"] == "kuberay-operator" == pod()["serviceAccountName"]'
expect "placement" 'pod()["nodeSelector"] == {"disk": "ssd"} and pod()["tolerations"] and pod()["priorityClassName"] and pod()["imagePullSecrets"] == [{"name": "pull"}]'
expect "labels do not break the selector" 'one("Deployment")["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/name"] == "kuberay-operator" and one("Deployment")["metadata"]["labels"]["team"] == "x"'
expect "probe times, own handler" 'box()["livenessProbe"] == {"initialDelaySeconds": 20, "periodSeconds": 7, "failureThreshold": 9, "httpGet": {"path": "/healthz", "port": "health"}}'
expect "flags" '{"--reconcile-concurrency=4", "--qps=50.5", "--burst=60", "--feature-gates=RayClusterStatusConditions=true,RayCronJob=false"} <= set(args())'
expect "env" 'box()["env"][2:] == [{"name": "ENABLE_PROBES_INJECTION", "value": "false"}]'
expect "who the operator is" '[e["valueFrom"]["fieldRef"]["fieldPath"] for e in box()["env"][:2]] == ["metadata.namespace", "metadata.labels[\u0027app.kubernetes.io/name\u0027]"]'
expect "resources" 'box()["resources"]["limits"]["cpu"] == "100m"'

release=other render "another release name"
expect "its own names" 'one("Deployment")["metadata"]["name"] == "other-ray-operator" and "other-ray-operator" in names("ClusterRole")'

refuse "additional properties 'tagg' not allowed" --set image.tagg=1
refuse "got string, want null or array" --set watchNamespace=a
refuse "they would all work on the same objects" --set replicaCount=2,leaderElectionEnabled=false
refuse "at least 1" --set reconcileConcurrency=0
refuse "neither may be 0" --set kubeClient.qps=0
refuse "64 hex digits" --set image.digest=sha256:12
refuse "volcano, yunikorn, kai-scheduler or scheduler-plugins" --set batchScheduler.name=slurm
refuse "Keep the name" --set batchScheduler.enabled=true,batchScheduler.name=yunikorn
refuse "KubernetesWAS is not in this release" --set 'featureGates[0].name=KubernetesWAS,featureGates[0].enabled=true'
refuse "KubeRay's program" --set operatorCommand=/manager

if [ $server = yes ]; then
  set_name=notes
  checks=$((checks + 1))
  "$helm" install notes "$chart" --namespace default --dry-run=server --skip-crds --set rbacEnable=false,repicas=2,configuration.defaultPodLabels.a=b > "$work/out" 2>&1 || fail "$(cat "$work/out")"
  for words in "deployment/notes-ray-operator" "no RBAC objects" "repicas: this chart has no such values" "only with configuration.enabled=true"; do
    checks=$((checks + 1))
    grep -qF -- "$words" "$work/out" || fail "the notes do not say '$words'"
  done
fi

if [ $failures -gt 0 ]; then
  echo "chart: $failures of $checks checks failed" >&2
  exit 1
fi
echo "chart: $checks checks passed"
