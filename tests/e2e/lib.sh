# What every end-to-end case needs. Sourced after `set -euo pipefail`; the runner sets KUBECONFIG and PATH.

OPERATOR_NAMESPACE=ray-system
OPERATOR_USER=system:serviceaccount:$OPERATOR_NAMESPACE:ray-operator

say() { printf '    %s\n' "$*"; }

fail() {
  printf '    FAILED: %s\n' "$*" >&2
  if [ -n "${NS:-}" ]; then
    kubectl -n "$NS" get rayclusters,pods,services -o wide >&2 || true
    kubectl -n "$NS" get events.events.k8s.io --sort-by=.metadata.creationTimestamp >&2 | tail -n 20 || true
    kubectl -n "$NS" get rayclusters -o jsonpath='{range .items[*]}{.metadata.name}: {.status}{"\n"}{end}' >&2 || true
  fi
  kubectl -n "$OPERATOR_NAMESPACE" logs deploy/ray-operator --tail=30 >&2 || true
  exit 1
}

# wait_for SECONDS WHAT COMMAND...: until the command succeeds.
wait_for() {
  local limit=$1 what=$2 end=$((SECONDS + $1))
  shift 2
  until "$@" >/dev/null 2>&1; do
    [ "$SECONDS" -lt "$end" ] || fail "after ${limit} s still not: $what"
    sleep 0.5
  done
}

# A namespace of its own for the case, gone when the case ends.
own_namespace() {
  NS=$1
  kubectl delete namespace "$NS" --ignore-not-found --wait=true >/dev/null
  kubectl create namespace "$NS" >/dev/null
  trap 'kubectl delete namespace "$NS" --ignore-not-found --wait=false >/dev/null 2>&1' EXIT
}

pods() { kubectl -n "$NS" get pods -l "ray.io/cluster=$1${2:+,ray.io/node-type=$2}" --field-selector=status.phase!=Failed -o name | sort; }
# Pods that nobody is deleting, with their uids.
living() {
  kubectl -n "$NS" get pods -l "ray.io/cluster=$1${2:+,ray.io/node-type=$2}" \
    -o go-template='{{range .items}}{{if not .metadata.deletionTimestamp}}{{.metadata.name}} {{.metadata.uid}}{{"\n"}}{{end}}{{end}}' | sort
}
count_living() { [ "$(living "$1" "$2" | wc -l)" = "$3" ]; }
condition() { kubectl -n "$NS" get "raycluster/$1" -o "jsonpath={.status.conditions[?(@.type=='$2')].$3}"; }
condition_is() { [ "$(condition "$1" "$2" "$3")" = "$4" ]; }
ready() { kubectl -n "$NS" wait --for=condition=Ready "raycluster/$1" --timeout="${2:-180}s" >/dev/null || fail "raycluster/$1 is not Ready"; }

# Like grep -q, but reads to the end: a writer that dies of a closed pipe would fail the case.
has() { grep "$@" >/dev/null; }
# Lines "reason<TAB>note" of the events about an object of the case's namespace.
events() {
  kubectl -n "$NS" get events.events.k8s.io \
    -o go-template="{{range .items}}{{if eq .regarding.name \"$1\"}}{{.reason}}{{\"\t\"}}{{.note}}{{\"\n\"}}{{end}}{{end}}"
}
count_events() { events "$1" | grep -c "^$2	" || true; }

# in_head CLUSTER COMMAND...: runs it in the head's Ray container.
in_head() {
  local head
  head=$(living "$1" head | head -n 1 | cut -d' ' -f1)
  shift
  kubectl -n "$NS" exec -i "$head" -- "$@"
}
ray_nodes() { in_head "$1" python -c 'import ray; ray.init(address="auto", log_to_driver=False, logging_level="ERROR"); print(sum(n["Alive"] for n in ray.nodes()))' 2>/dev/null | tail -n 1; }
ray_lists() { [ "$(ray_nodes "$1")" = "$2" ]; }

# requests USER SINCE(rfc3339): lines "verb resource subresource namespace code" from the audit log.
requests() { python3 "$(dirname "${BASH_SOURCE[0]}")/audit.py" "$LOCALCLUSTER_AUDIT_LOG" "$1" "$2"; }
now() { date -u +%Y-%m-%dT%H:%M:%S.%6NZ; }
