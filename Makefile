.PHONY: help demo demo-down cluster-up cluster-down cluster-status

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## Local Kubernetes, the operator, a Ray cluster of three nodes, a computation (warm: under 3 minutes)
	@localcluster/demo

demo-down: ## Undo the demo and put the machine back as it was
	@localcluster/demo-down

cluster-up: ## Start the local cluster, or check that it runs
	@localcluster/up

cluster-down: ## End the local cluster and remove all that it made
	@localcluster/down

cluster-status: ## Say what runs, and where kubeconfig, audit log and logs are
	@localcluster/status
