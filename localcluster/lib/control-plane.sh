# shellcheck shell=bash
# etcd, the API server, the controllers and the scheduler.

start_control_plane() {
  local keys=$STATE/certificates localkube=$STATE/bin/localkube
  mkdir -p "$STATE/etcd" "$STATE/audit"
  chmod 700 "$STATE/etcd"
  cp "$HERE/config/audit-policy.yaml" "$STATE/config/"
  # Sockets, because a port may turn out to be another etcd's, and the API server would then write into it.
  local store=unix://$STATE/etcd/client.sock peers=unix://$STATE/etcd/peer.sock
  local nobody=http://127.0.0.1:1 # the one member has no other to tell its address
  gone etcd || [ -S "$STATE/etcd/client.sock" ] || die "etcd runs without its socket: run down, then up"
  ! gone etcd || rm -f "$STATE"/etcd/*.sock
  start etcd "$localkube" etcd --name local --data-dir "$STATE/etcd/data" --unsafe-no-fsync --log-level warn \
    --listen-client-urls "$store" --advertise-client-urls "$nobody" --listen-peer-urls "$peers" \
    --initial-advertise-peer-urls "$nobody" --initial-cluster "local=$nobody" \
    --quota-backend-bytes 8589934592 --auto-compaction-mode periodic --auto-compaction-retention 10m
  ready etcd 30 test -S "$STATE/etcd/client.sock"
  start apiserver "$localkube" kube-apiserver --etcd-servers "$store" \
    --bind-address "$NODE_IP" --advertise-address "$NODE_IP" --secure-port "$API_PORT" \
    --endpoint-reconciler-type lease --service-cluster-ip-range "$SERVICE_CIDR" \
    --tls-cert-file "$keys/apiserver.crt" --tls-private-key-file "$keys/apiserver.key" --client-ca-file "$keys/ca.crt" \
    --service-account-issuer https://kubernetes.default.svc --service-account-key-file "$keys/service-accounts.pub" \
    --service-account-signing-key-file "$keys/service-accounts.key" --authorization-mode Node,RBAC \
    --kubelet-client-certificate "$keys/admin.crt" --kubelet-client-key "$keys/admin.key" \
    --kubelet-certificate-authority "$keys/ca.crt" --kubelet-preferred-address-types InternalIP \
    --proxy-client-cert-file "$keys/front-proxy.crt" --proxy-client-key-file "$keys/front-proxy.key" \
    --requestheader-client-ca-file "$keys/front-proxy-ca.crt" --requestheader-allowed-names front-proxy-client \
    --requestheader-extra-headers-prefix X-Remote-Extra- --requestheader-group-headers X-Remote-Group \
    --requestheader-username-headers X-Remote-User --allow-privileged \
    --audit-policy-file "$STATE/config/audit-policy.yaml" --audit-log-path "$STATE/audit/audit.log" \
    --audit-log-maxsize 100 --audit-log-maxbackup 10
  ready apiserver 60 admin get --raw /readyz
  start controllers "$localkube" kube-controller-manager --kubeconfig "$STATE/controllers.kubeconfig" \
    --use-service-account-credentials --leader-elect=false --secure-port 0 \
    --service-account-private-key-file "$keys/service-accounts.key" --root-ca-file "$keys/ca.crt" \
    --cluster-signing-cert-file "$keys/ca.crt" --cluster-signing-key-file "$keys/ca.key"
  start scheduler "$localkube" kube-scheduler --kubeconfig "$STATE/scheduler.kubeconfig" --leader-elect=false \
    --secure-port 0
}
