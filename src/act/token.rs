//! Secrets whose content is chance.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::plan::Manifest;

const BYTES: usize = 32;

/// The Secret with a fresh token under `key`: 32 random bytes in base64, as KubeRay makes them.
///
/// # Errors
/// The system has no random numbers.
pub(super) fn filled(manifest: &Manifest, key: &str) -> Result<Value, getrandom::Error> {
    let mut bytes = [0u8; BYTES];
    getrandom::fill(&mut bytes)?;
    let mut value = manifest.value.clone();
    value["stringData"] = json!({ key: STANDARD.encode(bytes) });
    Ok(value)
}
