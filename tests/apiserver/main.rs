//! ray-operator against a real etcd and API server, the test playing scheduler, kubelet and Ray's head.
//!
//! Needs the binary that `localcluster/` builds (`LOCALKUBE`, else the one in its cache) and openssl. Each test has a
//! namespace and operator processes of its own; tests mostly wait, so run a dozen side by side (`RUST_TEST_THREADS=14`).
//! `FULL=1` looks longer and repeats more.

mod bench;

mod accelerators;
mod admission;
mod adoption;
mod autoscaling;
mod claim;
mod crash;
mod creation;
mod deletion;
mod denial;
mod faults;
mod gangs;
mod ingress;
mod invalid;
mod joining;
mod leading;
mod login;
mod loss;
mod lost;
mod network;
mod quiet;
mod redis;
mod rights;
mod scaling;
mod services;
mod slices;
mod steps;
mod strangers;
mod suspension;
mod symptoms;
mod upgrade;

/// Whether this is the full run.
fn full() -> bool {
    std::env::var_os("FULL").is_some_and(|v| !v.is_empty() && v != "0")
}
