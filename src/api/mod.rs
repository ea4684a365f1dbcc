//! What users write: the types of group `ray.io`, names and labels, CRD generation, validation.
//!
//! Knows serde, schemars and the Kubernetes types only. Types are lenient on purpose (optional fields, enums as
//! strings): one odd object must never make the others unreadable. What the API server refuses is in [`constraints`];
//! what it cannot see, and what was stored before it looked, is in [`validation`].

pub mod accelerators;
pub mod children;
pub mod constraints;
mod constraints_jobs;
pub mod crd;
mod messages;
pub mod names;
pub mod raycluster;
pub mod raycronjob;
pub mod rayjob;
pub mod rayservice;
mod schema;
pub mod syntax;
pub mod validation;
mod validation_options;
pub mod version;

pub use raycluster::{RayCluster, RayClusterSpec, RayClusterStatus};
pub use raycronjob::{RayCronJob, RayCronJobSpec, RayCronJobStatus};
pub use rayjob::{RayJob, RayJobSpec, RayJobStatus};
pub use rayservice::{RayService, RayServiceSpec, RayServiceStatus};
