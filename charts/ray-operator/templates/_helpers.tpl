{{- define "ray-operator.name" -}}
{{- default "kuberay-operator" .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "ray-operator.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "ray-operator.selectorLabels" -}}
app.kubernetes.io/name: {{ include "ray-operator.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "ray-operator.labels" -}}
{{ include "ray-operator.selectorLabels" . }}
app.kubernetes.io/component: {{ default "kuberay-operator" .Values.componentOverride }}
app.kubernetes.io/part-of: ray-operator
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- /* The same with the user's labels, which do not replace ours. */ -}}
{{- define "ray-operator.podLabels" -}}
{{- merge (include "ray-operator.labels" . | fromYaml) .Values.labels | toYaml -}}
{{- end -}}

{{- define "ray-operator.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "ray-operator.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "ray-operator.image" -}}
{{- $image := .Values.image -}}
{{- $tag := default .Chart.AppVersion $image.tag -}}
{{- if $image.digest -}}
{{- printf "%s:%s@%s" $image.repository $tag $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $image.repository $tag -}}
{{- end -}}
{{- end -}}

{{- /* replicaCount when it is set, replicas otherwise. */ -}}
{{- define "ray-operator.replicas" -}}
{{- if kindIs "invalid" .Values.replicaCount -}}
{{- int .Values.replicas -}}
{{- else -}}
{{- int .Values.replicaCount -}}
{{- end -}}
{{- end -}}

{{- /* Both switches must be on. Empty text is "no". */ -}}
{{- define "ray-operator.rbac" -}}
{{- if and .Values.rbacEnable .Values.rbac.create -}}yes{{- end -}}
{{- end -}}

{{- /* Watched namespaces, comma-separated; empty is "all". */ -}}
{{- define "ray-operator.watchNamespaces" -}}
{{- if .Values.watchNamespace -}}
{{- join "," .Values.watchNamespace -}}
{{- else if .Values.singleNamespaceInstall -}}
{{- .Release.Namespace -}}
{{- end -}}
{{- end -}}

{{- define "ray-operator.featureGates" -}}
{{- $gates := list -}}
{{- range .Values.featureGates -}}
{{- $gates = append $gates (printf "%s=%t" .name .enabled) -}}
{{- end -}}
{{- join "," $gates -}}
{{- end -}}

{{- define "ray-operator.logFile" -}}
{{- if and .Values.logging.baseDir .Values.logging.fileName -}}
{{- printf "%s/%s" (trimSuffix "/" .Values.logging.baseDir) .Values.logging.fileName -}}
{{- end -}}
{{- end -}}

{{- /* Who schedules the pods; `enabled` alone is KubeRay's old way to say volcano. */ -}}
{{- define "ray-operator.batchScheduler" -}}
{{- if .Values.batchScheduler.name -}}
{{- .Values.batchScheduler.name -}}
{{- else if .Values.batchScheduler.enabled -}}
volcano
{{- end -}}
{{- end -}}

{{- /* What the operator asks of the API server for Ray clusters. The same rules in a ClusterRole or in Roles. */ -}}
{{- define "ray-operator.rules" -}}
- apiGroups: [ray.io]
  resources: [rayclusters]
  verbs: [get, list, watch, patch]
- apiGroups: [ray.io]
  resources: [rayclusters/status]
  verbs: [get, patch, update]
- apiGroups: [ray.io]
  resources: [rayclusters/finalizers]
  verbs: [update]
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, patch, delete]
# Never used, but granted onward to Ray's autoscaler: nobody may grant what they do not have.
- apiGroups: [""]
  resources: [pods/resize]
  verbs: [patch]
- apiGroups: [""]
  resources: [serviceaccounts, persistentvolumeclaims]
  verbs: [get, list, watch, create, patch]
- apiGroups: [rbac.authorization.k8s.io]
  resources: [roles, rolebindings]
  verbs: [get, list, watch, create, patch]
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, list, watch, create]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies, ingresses]
  verbs: [get, list, watch, create, patch, delete]
# In place of an Ingress, on OpenShift.
- apiGroups: [route.openshift.io]
  resources: [routes]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [batch]
  resources: [jobs]
  verbs: [get, list, watch, create, delete]
- apiGroups: [""]
  resources: [services]
  verbs: [get, list, watch, create, patch, delete]
{{- if .Values.useKubernetesProxy }}
- apiGroups: [""]
  resources: [services/proxy]
  verbs: [get]
{{- end }}
{{- if eq (include "ray-operator.batchScheduler" .) "volcano" }}
- apiGroups: [scheduling.volcano.sh]
  resources: [podgroups]
  verbs: [get, list, watch, create, patch, delete]
{{- end }}
{{- if eq (include "ray-operator.batchScheduler" .) "scheduler-plugins" }}
- apiGroups: [scheduling.x-k8s.io]
  resources: [podgroups]
  verbs: [get, list, watch, create, patch, delete]
{{- end }}
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end -}}

{{- /* Mistakes that the schema cannot explain. */ -}}
{{- define "ray-operator.validate" -}}
{{- $replicas := include "ray-operator.replicas" . | int -}}
{{- if and (gt $replicas 1) (not .Values.leaderElectionEnabled) -}}
{{- fail (printf "leaderElectionEnabled is false with %d replicas: they would all work on the same objects. Set leaderElectionEnabled=true or replicas=1." $replicas) -}}
{{- end -}}
{{- if lt (int .Values.reconcileConcurrency) 1 -}}
{{- fail (printf "reconcileConcurrency is %v: it must be a whole number of at least 1." .Values.reconcileConcurrency) -}}
{{- end -}}
{{- if or (eq (float64 .Values.kubeClient.qps) 0.0) (lt (int .Values.kubeClient.burst) 1) -}}
{{- fail (printf "kubeClient.qps is %v and kubeClient.burst is %v: neither may be 0. A negative qps switches the limit off." .Values.kubeClient.qps .Values.kubeClient.burst) -}}
{{- end -}}
{{- if and .Values.image.digest (not (regexMatch "^sha256:[0-9a-f]{64}$" .Values.image.digest)) -}}
{{- fail (printf "image.digest is %q: it must be \"sha256:\" and 64 hex digits." .Values.image.digest) -}}
{{- end -}}
{{- $schedulers := list "" "volcano" "yunikorn" "kai-scheduler" "scheduler-plugins" -}}
{{- if not (has .Values.batchScheduler.name $schedulers) -}}
{{- fail (printf "batchScheduler.name is %q: it must be volcano, yunikorn, kai-scheduler or scheduler-plugins." .Values.batchScheduler.name) -}}
{{- end -}}
{{- if and .Values.batchScheduler.enabled .Values.batchScheduler.name -}}
{{- fail "batchScheduler.enabled and batchScheduler.name are both set. Keep the name: enabled is an old way to say volcano." -}}
{{- end -}}
{{- range .Values.featureGates -}}
{{- if and (eq .name "KubernetesWAS") .enabled -}}
{{- fail "feature gate KubernetesWAS is not in this release. Remove it, and choose a batchScheduler.name for gangs." -}}
{{- end -}}
{{- end -}}
{{- if eq .Values.operatorCommand "/manager" -}}
{{- fail "operatorCommand is /manager, KubeRay's program. Remove operatorCommand and image from the values that you took over." -}}
{{- end -}}
{{- end -}}

{{- /* Values that have no effect, one a line. Shown after an install. */ -}}
{{- define "ray-operator.ignored" -}}
{{- with include "ray-operator.unknownValues" . }}
- {{ . }}: this chart has no such values
{{- end }}
{{- if ne (empty .Values.logging.baseDir) (empty .Values.logging.fileName) }}
- logging.baseDir, logging.fileName: the log goes to a file only if both are set
{{- end }}
{{- $c := .Values.configuration }}
{{- if and (not $c.enabled) (or $c.defaultContainerEnvs $c.defaultPodAnnotations $c.defaultPodLabels $c.headSidecarContainers $c.workerSidecarContainers) }}
- configuration: it counts only with configuration.enabled=true
{{- end }}
{{- end -}}

{{- /* Top-level values that nothing reads: mostly typing errors. */ -}}
{{- define "ray-operator.unknownValues" -}}
{{- $known := list "nameOverride" "componentOverride" "fullnameOverride" "replicas" "replicaCount" "image" "imagePullSecrets" "operatorCommand" "extraArgs" "env" "watchNamespace" "singleNamespaceInstall" "crNamespacedRbacEnable" "rbacEnable" "rbac" "serviceAccount" "leaderElectionEnabled" "reconcileConcurrency" "kubeClient" "useKubernetesProxy" "featureGates" "batchScheduler" "logging" "configuration" "metrics" "service" "resources" "livenessProbe" "readinessProbe" "podSecurityContext" "securityContext" "terminationGracePeriodSeconds" "podDisruptionBudget" "topologySpreadConstraints" "nodeSelector" "affinity" "tolerations" "priorityClassName" "labels" "annotations" "userRoles" "global" -}}
{{- $unknown := list -}}
{{- range $key, $_ := .Values -}}
{{- if not (has $key $known) -}}
{{- $unknown = append $unknown $key -}}
{{- end -}}
{{- end -}}
{{- join ", " $unknown -}}
{{- end -}}
