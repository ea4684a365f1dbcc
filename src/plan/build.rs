use crate::api::raycluster::*; use crate::plan::config::PlanConfig; use k8s_openapi::api::core::v1::*; use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
pub struct Identity { pub slot: u32, pub host: u32, pub incarnation: u32, pub quick_failures: u32 }
pub fn head_pod(_: &RayCluster, _: &PlanConfig, _: &Identity) -> Pod { todo!() }
pub fn worker_pod(_: &RayCluster, _: &WorkerGroupSpec, _: &PlanConfig, _: &Identity) -> Pod { todo!() }
pub fn head_service(_: &RayCluster, _: &PlanConfig) -> Service { todo!() }
pub fn head_external_service(_: &RayCluster, _: &PlanConfig) -> Option<Service> { todo!() }
pub fn head_service_name(_: &RayCluster) -> String { todo!() }
pub fn head_service_fqdn(_: &RayCluster, _: &PlanConfig) -> String { todo!() }
pub fn dashboard_port(_: &RayCluster) -> i32 { todo!() }
pub fn has_dashboard(_: &RayCluster) -> bool { todo!() }
pub fn remarks(_: &RayCluster) -> Vec<String> { todo!() }
pub struct Desired { pub cpu: Quantity, pub memory: Quantity, pub gpu: Quantity, pub tpu: Quantity }
pub fn desired_resources(_: &RayCluster) -> Desired { todo!() }
