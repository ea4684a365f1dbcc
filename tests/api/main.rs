//! What users write: CRDs, types, validation.

mod crds;
mod types;
mod validation;
