//! ray-operator: runs Ray on Kubernetes.
//!
//! House rules:
//! 1. Only `observe` watches, only `act` writes, only `ray` talks to Ray, only `plan` decides.
//! 2. `plan` depends on its arguments alone; iteration order is fixed.
//! 3. No write without a difference; no difference without a reason.
//! 4. No waiting inside a pass; every effect has a deadline; HTTP to Ray never holds a reconcile slot.
//! 5. Children have deterministic names (owner uid, group, slot, incarnation) and a controller owner reference: a
//!    repeated create is "already exists", never a twin. Nothing is deleted that we do not own.

#![forbid(unsafe_code)]

pub mod act;
pub mod api;
pub mod cli;
pub mod config;
pub mod observe;
pub mod offline;
pub mod plan;
pub mod ray;
pub mod run;
