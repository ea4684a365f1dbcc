//! The house rules of `src/lib.rs`, as far as the source shows them.

use std::path::{Path, PathBuf};

/// What only one part of the house may use, and which part.
const RESERVED: &[(&str, &[&str], &str)] = &[
    ("watcher(", &["src/observe"], "only observe watches"),
    ("PostParams", &["src/act", "src/run/leader"], "only act writes (the Lease is the election's own)"),
    ("PatchParams", &["src/act"], "only act writes"),
    ("DeleteParams", &["src/act"], "only act writes"),
    ("TcpStream", &["src/ray"], "only ray talks to Ray"),
    ("client::conn", &["src/ray"], "only ray talks to Ray"),
];
/// What would make `plan` depend on more than its arguments, or vary from run to run.
const IMPURE: &[&str] = &[
    "Timestamp::now",
    "Instant",
    "SystemTime",
    "tokio",
    "kube::Client",
    "std::env::var",
    "HashMap",
    "HashSet",
    "rand::",
    "std::fs",
    "crate::act",
    "crate::run",
    "crate::ray",
];

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|e| e == "rs") && path.file_name().is_none_or(|n| n != "tests.rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// The code of a file: without comments and without its tests.
fn code(path: &Path) -> String {
    let text = std::fs::read_to_string(path).expect("a source file");
    let product = text.split("#[cfg(test)]").next().unwrap_or_default();
    product.lines().filter(|l| !l.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn each_part_of_the_house_keeps_to_its_own() {
    let mut used = vec![false; RESERVED.len()];
    for path in sources(&root().join("src")) {
        let (text, shown) = (code(&path), path.strip_prefix(root()).expect("below the root").display().to_string());
        for (n, (word, places, rule)) in RESERVED.iter().enumerate() {
            if text.contains(word) {
                assert!(places.iter().any(|p| shown.starts_with(p)), "{shown} uses {word}: {rule}");
                used[n] = true;
            }
        }
    }
    for (n, (word, ..)) in RESERVED.iter().enumerate() {
        assert!(used[n], "nobody uses {word} any more: this rule guards nothing");
    }
}

#[test]
fn plan_depends_on_its_arguments_alone() {
    let files = sources(&root().join("src/plan"));
    assert!(files.len() > 10, "the planner's files");
    for path in files {
        let text = code(&path);
        for word in IMPURE {
            assert!(!text.contains(word), "{} uses {word}: plan is a pure function", path.display());
        }
    }
}

#[test]
fn files_answer_one_question() {
    for path in sources(&root().join("src")) {
        let lines = std::fs::read_to_string(&path).expect("a source file").lines().count();
        assert!(
            lines <= 500,
            "{} has {lines} lines: where would a newcomer look for the second question?",
            path.display()
        );
    }
}
