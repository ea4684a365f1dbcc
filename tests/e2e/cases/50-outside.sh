# A head for people outside: Ray's own Service stays as it is, a second one has the node ports, and goes when not asked for.
own_namespace e2e-outside
name=$(kubectl create --dry-run=client -f "$REPOSITORY/examples/raycluster-nodeport.yaml" -o 'jsonpath={.metadata.name}')
kubectl -n "$NS" apply -f "$REPOSITORY/examples/raycluster-nodeport.yaml" >/dev/null
ready "$name"
of() { kubectl -n "$NS" get service "$1" -o "jsonpath={$2}"; }
[ "$(of "$name-head-svc" .spec.type)" = ClusterIP ] || fail "Ray's own Service is no ClusterIP"
[ "$(of "$name-head-external" .spec.type)" = NodePort ] || fail "there is no NodePort Service"
port=$(kubectl -n "$NS" get raycluster "$name" -o 'jsonpath={.status.endpoints.dashboard}')
[ "$port" = "$(of "$name-head-external" '.spec.ports[?(@.name=="dashboard")].nodePort')" ] || fail "endpoints do not name the node port: $port"
node=$(kubectl get nodes -o 'jsonpath={.items[0].status.addresses[?(@.type=="InternalIP")].address}')
answers() { curl -fsS --max-time 5 "http://$node:$port/api/version"; }
wait_for 30 "the dashboard answers on the node port" answers
say "the dashboard answers on node port $port: $(answers | cut -c1-80)"
own=$(of "$name-head-svc" .metadata.uid)
kubectl -n "$NS" patch raycluster "$name" --type=merge -p '{"spec":{"headGroupSpec":{"serviceType":"ClusterIP"}}}' >/dev/null
external_gone() { ! kubectl -n "$NS" get service "$name-head-external"; }
wait_for 30 "the second Service goes when it is not asked for" external_gone
[ "$(of "$name-head-svc" .metadata.uid)" = "$own" ] || fail "Ray's own Service was replaced"
events "$name" | has '^DeletedService' || fail "no event tells of it: $(events "$name")"
ready "$name"
say "gone again; Ray's own Service was not touched"
