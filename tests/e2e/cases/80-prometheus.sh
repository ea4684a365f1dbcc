# A real Prometheus scrapes the installed operator and finds controller-runtime's and KubeRay's names.
own_namespace e2e-prometheus
sed -e 's/name: demo$/name: watched/' -e 's/replicas: 2$/replicas: 0/' "$REPOSITORY/examples/raycluster.yaml" | kubectl -n "$NS" apply -f - >/dev/null
ready watched
address=$(kubectl -n "$OPERATOR_NAMESPACE" get service ray-operator -o 'jsonpath={.spec.clusterIP}:{.spec.ports[0].port}')
folder=$(mktemp -d)
cat >"$folder/prometheus.yml" <<YAML
scrape_configs:
- job_name: ray-operator
  scrape_interval: 1s
  static_configs: [{targets: ["$address"]}]
YAML
prometheus --config.file="$folder/prometheus.yml" --storage.tsdb.path="$folder/data" --web.listen-address=127.0.0.1:19090 >"$folder/log" 2>&1 &
prometheus=$!
trap 'kill $prometheus; wait $prometheus 2>/dev/null; rm -rf "$folder"; kubectl delete namespace "$NS" --wait=false >/dev/null' EXIT
query() { python3 -c '
import json, sys, urllib.parse, urllib.request
url = "http://127.0.0.1:19090/api/v1/query?query=" + urllib.parse.quote(sys.argv[1])
result = json.load(urllib.request.urlopen(url))["data"]["result"]
print(result[0]["value"][1] if result else "")' "$1"; }
above_zero() { [ -n "$(query "$1")" ] && [ "$(query "$1")" != 0 ]; }
for metric in 'controller_runtime_reconcile_total{controller="raycluster",result="success"}' \
  'controller_runtime_reconcile_time_seconds_bucket{controller="raycluster",le="+Inf"}' \
  'kuberay_cluster_info{name="watched",owner_kind="None"}' \
  'kuberay_cluster_condition_provisioned{name="watched",condition="true"}' \
  'rest_client_requests_total{code="201"}' \
  'leader_election_master_status'; do
  wait_for 40 "$metric is scraped" above_zero "$metric"
  say "$metric = $(query "$metric")"
done
