//! What the API server's audit log says of one user's requests.

use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::path::Path;

use serde_json::Value;

/// A place in the log.
#[derive(Clone, Copy)]
pub struct Mark(u64);

pub fn mark(dir: &Path) -> Mark {
    Mark(std::fs::metadata(dir.join("audit.log")).map_or(0, |m| m.len()))
}

/// Titles (`create pods`) of the requests of a user that were answered since a mark.
pub fn since(dir: &Path, mark: Mark, user: &str) -> Vec<String> {
    let mut file = File::open(dir.join("audit.log")).expect("the audit log");
    file.seek(SeekFrom::Start(mark.0)).expect("a place in it");
    let mut titles = Vec::new();
    for line in BufReader::new(file).lines().map_while(Result::ok) {
        let Ok(event) = serde_json::from_str::<Value>(&line) else { continue };
        if event["impersonatedUser"]["username"] != user || event["stage"] != "ResponseComplete" {
            continue;
        }
        let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let sub = text("/objectRef/subresource");
        let slash = if sub.is_empty() { "" } else { "/" };
        titles.push(format!("{} {}{slash}{sub}", text("/verb"), text("/objectRef/resource")));
    }
    titles
}
