# What is slow to build is kept outside the checkout, so that a fresh clone on a warm machine is quick.
RAY_OPERATOR_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/ray-operator
export CARGO_TARGET_DIR ?= $(RAY_OPERATOR_CACHE)/cargo
export INSTA_UPDATE ?= no
# Cargo takes sources of another checkout for built when they are older than its last build: say that they are not.
ifneq ($(shell cat $(CARGO_TARGET_DIR)/checkout 2>/dev/null),$(CURDIR))
$(shell mkdir -p $(CARGO_TARGET_DIR) && touch src/lib.rs src/main.rs && echo $(CURDIR) > $(CARGO_TARGET_DIR)/checkout)
endif

.PHONY: help test test-full lint test-unit test-apiserver test-chart test-e2e crds schemas demo demo-down cluster-up cluster-down cluster-status

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## Local Kubernetes, the operator, a Ray cluster of three nodes, a computation (warm: about a minute)
	@localcluster/demo

demo-down: ## Undo the demo and put the machine back as it was
	@localcluster/demo-down

cluster-up: ## Start the local cluster, or check that it runs
	@localcluster/up

cluster-down: ## End the local cluster and remove all that it made
	@localcluster/down

cluster-status: ## Say what runs, and where kubeconfig, audit log and logs are
	@localcluster/status

test: ## All that CI runs: lint, tiers 0 to 2 in full, end-to-end cases of each kind (warm: under 25 minutes)
	@tests/run lint unit apiserver chart e2e

test-full: ## Everything, at the length that is promised: long waits, many histories, the local cluster's own life
	@FULL=1 tests/run lint unit apiserver chart e2e localcluster

lint: ## Format and clippy
	@tests/run lint

test-unit: ## Tiers 0 and 1: unit, golden, properties, house rules
	@tests/run unit

test-apiserver: ## Tier 2: a real etcd and kube-apiserver, the test playing kubelet
	@tests/run apiserver

test-chart: ## The Helm chart, rendered
	@tests/run chart

test-e2e: ## Tier 3: the local cluster with real Ray; CASES="10-life ..." names some
	@tests/run e2e

crds: ## Write crds/ anew from the types
	@UPDATE_CRDS=1 cargo test --quiet --test api

schemas: ## Write src/api/kubernetes-schema.json anew from Kubernetes' own OpenAPI
	@python3 tools/kubernetes-schema.py
