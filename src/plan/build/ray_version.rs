//! Which version of Ray `rayVersion` names.

/// Major, minor and patch. Blanks and a `v` in front and anything behind the numbers are passed over, so `2.53.0rc1`
/// is 2.53.0; `None` for text without two numbers (`nightly`, `2`). KubeRay's rule.
pub fn parse(text: &str) -> Option<(u32, u32, u32)> {
    let text = text.trim_start();
    let mut rest = text.strip_prefix('v').unwrap_or(text);
    let mut numbers = Vec::new();
    loop {
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let Ok(number) = rest[..end].parse() else { break };
        if numbers.is_empty() && end > 1 && rest.starts_with('0') {
            return None;
        }
        numbers.push(number);
        match rest[end..].strip_prefix('.') {
            Some(next) => rest = next,
            None => break,
        }
    }
    Some((*numbers.first()?, *numbers.get(1)?, numbers.get(2).copied().unwrap_or(0)))
}

/// Whether `rayVersion` names this version or a later one. `false` when it names none.
pub fn at_least(version: Option<&str>, major: u32, minor: u32) -> bool {
    version.and_then(parse).is_some_and(|v| v >= (major, minor, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_leniently() {
        for (text, parsed) in [
            ("2.53.0", Some((2, 53, 0))),
            ("v2.53", Some((2, 53, 0))),
            (" 2.53.0rc1", Some((2, 53, 0))),
            ("3.0.0.dev0", Some((3, 0, 0))),
            ("2.9.3-py310", Some((2, 9, 3))),
            ("2.53.", Some((2, 53, 0))),
            ("", None),
            ("2", None),
            ("nightly", None),
            ("02.53", None),
        ] {
            assert_eq!(parse(text), parsed, "{text:?}");
        }
        assert!(at_least(Some("2.100.0"), 2, 53) && !at_least(Some("2.9"), 2, 53) && !at_least(None, 2, 53));
    }
}
