# shellcheck shell=bash
# Who is who: one authority, a certificate and a kubeconfig for each user, so that the audit log tells them apart.

certificate() { # certificate NAME SUBJECT [SUBJECT-ALT-NAMES]
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout "$1.key" -out "$1.csr" -subj "$2"
  openssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 3650 -out "$1.crt" \
    -extfile <(printf 'extendedKeyUsage=serverAuth,clientAuth\n%s' "${3:+subjectAltName=$3}")
  rm "$1.csr"
}

kubeconfig_of() { # kubeconfig_of USER
  local file=$STATE/$1.kubeconfig
  cat >"$file.new" <<END
apiVersion: v1
kind: Config
current-context: ray-local
clusters:
- name: ray-local
  cluster:
    server: https://$NODE_IP:$API_PORT
    certificate-authority-data: $(base64 -w0 <ca.crt)
users:
- name: $1
  user:
    client-certificate-data: $(base64 -w0 <"$1.crt")
    client-key-data: $(base64 -w0 <"$1.key")
contexts:
- name: ray-local
  context: {cluster: ray-local, user: $1}
END
  chmod 600 "$file.new"
  mv "$file.new" "$file"
}

make_certificates() {
  [ ! -e "$STATE/admin.kubeconfig" ] || return 0
  rm -rf "$STATE/certificates"
  mkdir -p "$STATE/certificates"
  cd "$STATE/certificates" || return
  umask 077
  local authority user
  for authority in ca front-proxy-ca; do
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 3650 \
      -keyout "$authority.key" -out "$authority.crt" -subj "/CN=ray-local-$authority" \
      -addext keyUsage=critical,keyCertSign,cRLSign
  done
  openssl ecparam -name prime256v1 -genkey -noout -out service-accounts.key
  openssl ec -in service-accounts.key -pubout -out service-accounts.pub
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout front-proxy.key -out front-proxy.csr \
    -subj /CN=front-proxy-client
  openssl x509 -req -in front-proxy.csr -CA front-proxy-ca.crt -CAkey front-proxy-ca.key -CAcreateserial -days 3650 \
    -out front-proxy.crt
  certificate apiserver /CN=kube-apiserver \
    "DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:localhost,IP:127.0.0.1,IP:$NODE_IP,IP:$API_SERVICE_IP"
  certificate kubelet "/O=system:nodes/CN=system:node:$NODE_NAME" "DNS:$NODE_NAME,IP:$NODE_IP"
  certificate controllers /CN=system:kube-controller-manager
  certificate scheduler /CN=system:kube-scheduler
  certificate proxy /CN=system:kube-proxy
  for user in dns volume-provisioner admin; do certificate "$user" "/O=system:masters/CN=$user"; done
  for user in kubelet controllers scheduler proxy dns volume-provisioner admin; do kubeconfig_of "$user"; done
}
