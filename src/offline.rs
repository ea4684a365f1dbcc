//! Planning without a cluster: `ray-operator plan -f`.

use std::path::PathBuf;

use thiserror::Error;

use crate::config::Config;

/// Why nothing was planned.
#[derive(Debug, Error)]
pub enum OfflineError {
    #[error("this build cannot plan offline")]
    NotBuilt,
}

/// What the operator would do to the objects in files, folders (all YAML files in them) or `-` (standard input), as
/// text for people.
pub fn plan_files(_paths: &[PathBuf], _config: &Config) -> Result<String, OfflineError> {
    Err(OfflineError::NotBuilt)
}
