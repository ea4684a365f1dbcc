//! What is made of a RayCluster, as snapshots that read as documentation, and beside KubeRay's own objects.

mod autoscaler;
mod collector;
mod common;
mod fault_tolerance;
mod ingress;
mod kuberay;
mod login;
mod network;
mod plans;
mod pods;
mod scheduling;
mod services;
mod start;
