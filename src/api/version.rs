//! Which Ray a cluster runs, as far as `spec.rayVersion` tells.

/// Major, minor and patch. Missing ones are 0.
pub type RayVersion = (u32, u32, u32);

/// Reads a version as KubeRay does: spaces and `v` before it and anything after the numbers are ignored, so that
/// `2.53.0rc1` counts as 2.53.0. `None` for less than two numbers, or a first one with a leading zero.
pub fn parse(text: &str) -> Option<RayVersion> {
    let text = text.trim_start();
    let text = text.strip_prefix('v').unwrap_or(text);
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let mut numbers = text[..end].split('.');
    let (major, minor) = (numbers.next()?, numbers.next()?);
    if major.len() > 1 && major.starts_with('0') {
        return None;
    }
    let patch = numbers.next().and_then(|n| n.parse().ok()).unwrap_or(0);
    Some((major.parse().ok()?, minor.parse().ok()?, patch))
}

/// Whether `rayVersion` names this version or a later one. `false` when it names none.
pub fn at_least(version: Option<&str>, major: u32, minor: u32) -> bool {
    version.and_then(parse).is_some_and(|v| v >= (major, minor, 0))
}

#[cfg(test)]
mod tests {
    #[test]
    fn versions_are_read_as_kuberay_reads_them() {
        for (text, version) in [
            ("2.53.0", Some((2, 53, 0))),
            ("v2.53", Some((2, 53, 0))),
            ("  2.53.0rc1", Some((2, 53, 0))),
            ("3.0.0.dev0", Some((3, 0, 0))),
            ("2.53.rc1", Some((2, 53, 0))),
            ("2", None),
            ("", None),
            ("nightly", None),
            ("02.53", None),
        ] {
            assert_eq!(super::parse(text), version, "{text:?}");
        }
    }
}
