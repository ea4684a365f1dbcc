# Install, upgrade, rollback, uninstall; and an installation without rights says what it lacks and heals when given it.
own_namespace e2e-helm
release() { helm "$@" >/dev/null || fail "helm $*"; }
deployed() { kubectl -n "$OPERATOR_NAMESPACE" rollout status deploy/ray-operator --timeout=90s >/dev/null; }
settings=(--namespace "$OPERATOR_NAMESPACE" --set "image.repository=${IMAGE%:*}" --set "image.tag=${IMAGE##*:}" --wait --timeout 120s)

sed -e 's/name: demo$/name: kept/' -e 's/replicas: 2$/replicas: 1/' "$REPOSITORY/examples/raycluster.yaml" | kubectl -n "$NS" apply -f - >/dev/null
ready kept
uids=$(living kept)
release upgrade ray-operator "$REPOSITORY/charts/ray-operator" "${settings[@]}" --set reconcileConcurrency=3
deployed || fail "the upgrade did not roll out"
kubectl -n "$OPERATOR_NAMESPACE" get deploy ray-operator -o jsonpath='{.spec.template.spec.containers[0].args}' | has 'concurrency=3' || fail "the upgrade changed nothing"
release rollback ray-operator --namespace "$OPERATOR_NAMESPACE" --wait --timeout 120s
deployed || fail "the rollback did not roll out"
say "upgraded and rolled back"

release upgrade ray-operator "$REPOSITORY/charts/ray-operator" "${settings[@]}" --set rbac.create=false
deployed || fail "without rights the operator does not even run"
kubectl -n "$OPERATOR_NAMESPACE" create clusterrolebinding e2e-half --clusterrole=e2e-half --serviceaccount="$OPERATOR_NAMESPACE:ray-operator" --dry-run=client -o yaml | kubectl apply -f - >/dev/null
kubectl apply -f - >/dev/null <<YAML
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: e2e-half}
rules:
- {apiGroups: [ray.io], resources: [rayclusters], verbs: [get, list, watch]}
- {apiGroups: [ray.io], resources: [rayclusters/status], verbs: [get, patch, update]}
- {apiGroups: [""], resources: [pods, services], verbs: [get, list, watch]}
- {apiGroups: [""], resources: [services], verbs: [create]}
- {apiGroups: [events.k8s.io], resources: [events], verbs: [create]}
- {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [get, create, update]}
YAML
trap 'kubectl delete clusterrole,clusterrolebinding e2e-half --ignore-not-found >/dev/null; kubectl delete namespace "$NS" --wait=false >/dev/null' EXIT
sed -e 's/name: demo$/name: denied/' -e 's/replicas: 2$/replicas: 0/' "$REPOSITORY/examples/raycluster.yaml" | kubectl -n "$NS" apply -f - >/dev/null
wait_for 90 "Forbidden is the reason" condition_is denied Ready reason Forbidden
condition denied Ready message | has 'create pods' || fail "verb and resource are missing: $(condition denied Ready message)"
events denied | has "error syncing '$NS/denied': failed to create pods .*cannot create resource" || fail "no event says it: $(events denied)"
say "without rights: $(condition denied Ready message | cut -c1-140)"
release upgrade ray-operator "$REPOSITORY/charts/ray-operator" "${settings[@]}"
granted=$SECONDS
kubectl delete clusterrolebinding e2e-half >/dev/null
head_made() { count_living denied head 1; }
wait_for 30 "with the rights the head is made" head_made
say "healed $((SECONDS - granted)) s after the rights came"
ready denied

release uninstall ray-operator --namespace "$OPERATOR_NAMESPACE" --wait --timeout 60s
[ -z "$(kubectl get clusterroles,clusterrolebindings -o name | grep ray-operator | grep -v e2e || true)" ] || fail "uninstall left roles behind"
[ "$(living kept)" = "$uids" ] || fail "the cluster changed while the operator came and went"
kubectl get crd rayclusters.ray.io >/dev/null || fail "uninstall took the CRDs, and with them the users' clusters"
say "uninstalled; clusters live on untouched"
release upgrade --install ray-operator "$REPOSITORY/charts/ray-operator" "${settings[@]}"
ready kept
say "installed again; the cluster is picked up as it was"
[ "$(living kept)" = "$uids" ] || fail "picking up replaced pods"
