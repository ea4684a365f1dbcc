//! How a value of `rayStartParams`, `labels` or `resources` gets into a shell line.
//!
//! KubeRay pastes values into `bash -c` as they are. Its users rely on that for two things: variables of the container
//! (`redis-password: $REDIS_PASSWORD`) and quotes of their own (`resources: '"{\"C\": 1}"'`). The same paste lets a
//! value run commands. The rule here:
//!
//! - A value that is **one shell word**, made of ordinary characters, quotes, backslashes and `$NAME`, `${NAME}` or
//!   `${NAME:-text}`, is passed byte for byte as under KubeRay. So is one followed by more flags (`4 --verbose`).
//! - **Anything else is data**: it is put in single quotes whole. That goes for operators (`;`, `&`, `|`, `<`, `>`,
//!   parentheses, braces), command substitution in both forms, line breaks, comments, unbalanced quotes, and blanks
//!   that would only have split the word.
//! - Line breaks at the end are dropped: YAML's `|` leaves one behind.
//!
//! The kubelet reads the line before the shell does: it turns `$$` into `$` and `$(NAME)` into the variable's value.
//! Neither makes a harmless word harmful, since a `$` that is left stands before what it stood before. In data, `$$` is
//! doubled to arrive as written and `$(NAME)` is left to the kubelet, as under KubeRay.

use std::borrow::Cow;

/// The value as it is to be written after `--key=`.
pub fn argument(value: &str) -> Cow<'_, str> {
    let value = value.trim_end_matches(['\n', '\r']);
    if is_harmless(value) { Cow::Borrowed(value) } else { Cow::Owned(single_quoted(&value.replace("$$", "$$$$"))) }
}

/// The key as it is to be written after `--`: quoted unless it looks like a flag's name.
pub fn flag_name(key: &str) -> Cow<'_, str> {
    let plain = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
    if plain { Cow::Borrowed(key) } else { Cow::Owned(single_quoted(&key.replace("$$", "$$$$"))) }
}

/// One word that the shell reads back as exactly this text.
pub fn single_quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Whether the shell can read this after `--key=` without running, redirecting or cutting off anything.
fn is_harmless(value: &str) -> bool {
    let mut rest = value;
    let mut words = 0;
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        let next = match c {
            '\'' => after.find('\'').map(|end| &after[end + 1..]),
            '"' => skip_double_quoted(after),
            '\\' => after.chars().next().filter(|c| *c != '\n').map(|c| &after[c.len_utf8()..]),
            '$' if after.starts_with(['\'', '"']) => None,
            '$' => skip_variable(after),
            ' ' | '\t' => {
                words += 1;
                let next = after.trim_start_matches([' ', '\t']);
                let starts_well = if words == 1 { next.starts_with('-') } else { !next.starts_with('#') };
                (next.is_empty() || starts_well).then_some(next)
            }
            ';' | '&' | '|' | '<' | '>' | '(' | ')' | '{' | '}' | '`' => None,
            c if c.is_control() => None,
            _ => Some(after),
        };
        match next {
            Some(next) => rest = next,
            None => return false,
        }
    }
    true
}

/// What follows the closing double quote; `None` when there is none, or a command inside.
fn skip_double_quoted(text: &str) -> Option<&str> {
    let mut rest = text;
    loop {
        let c = rest.chars().next()?;
        let after = &rest[c.len_utf8()..];
        rest = match c {
            '"' => return Some(after),
            '\\' => &after[after.chars().next()?.len_utf8()..],
            '`' => return None,
            '$' => skip_variable(after)?,
            _ => after,
        };
    }
}

/// What follows a variable whose `$` is already read; `None` for every expansion that can do more than yield a value.
fn skip_variable(text: &str) -> Option<&str> {
    if text.starts_with('(') {
        return None;
    }
    let Some(inner) = text.strip_prefix('{') else {
        return Some(text);
    };
    let (inner, rest) = inner.split_once('}')?;
    let name = inner.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_');
    let plain = |s: &str| s.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_./:,=@%+".contains(&b));
    let default = name.strip_prefix(':').unwrap_or(name);
    let ok = name.len() < inner.len() && (name.is_empty() || (default.starts_with(['-', '+']) && plain(&default[1..])));
    ok.then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// What the kubelet does to args before the shell reads them, with no variable defined.
    fn kubelet(text: &str) -> String {
        text.replace("$$", "$")
    }

    /// The words that a program receives from bash for `--key=<value>`, and whether bash ended well.
    fn seen_by_ray(value: &str) -> (bool, Vec<String>) {
        let script = format!(r"printf '%s\0' --key={} --next", kubelet(&argument(value)));
        let out = Command::new("bash").args(["-c", &script]).env("REDIS_PASSWORD", "s3cret").output().unwrap();
        let words = String::from_utf8(out.stdout).unwrap();
        (out.status.success(), words.trim_end_matches('\0').split('\0').map(str::to_owned).collect())
    }

    #[test]
    fn what_works_under_kuberay_is_passed_byte_for_byte() {
        for (value, received) in [
            ("4", "4"),
            ("0.0.0.0", "0.0.0.0"),
            ("head-svc.ns.svc.cluster.local:6379", "head-svc.ns.svc.cluster.local:6379"),
            (r#""{\"C\": 1}""#, r#"{"C": 1}"#),
            (r#"'{"C": 1, "D": 0.5}'"#, r#"{"C": 1, "D": 0.5}"#),
            ("$REDIS_PASSWORD", "s3cret"),
            ("\"$REDIS_PASSWORD\"", "s3cret"),
            ("${REDIS_PASSWORD}", "s3cret"),
            ("${UNSET:-6380}", "6380"),
            ("${UNSET-a/b}", "a/b"),
            ("pre-$REDIS_PASSWORD-post", "pre-s3cret-post"),
            ("'$REDIS_PASSWORD'", "$REDIS_PASSWORD"),
            ("'; reboot'", "; reboot"),
            ("\"a; b | c > d\"", "a; b | c > d"),
            (r"a\ b\;c", "a b;c"),
            ("a'b'\"c\"", "abc"),
            ("it\\'s", "it's"),
            ("100%", "100%"),
            ("zone=a,tier=b", "zone=a,tier=b"),
            ("größe", "größe"),
            ("'{\"a\":\n1}'", "{\"a\":\n1}"),
            ("a#b", "a#b"),
            ("", ""),
        ] {
            assert_eq!(argument(value), value, "passed as it is");
            let words = vec![format!("--key={received}"), "--next".to_owned()];
            assert_eq!(seen_by_ray(value), (true, words), "{value:?}");
        }
    }

    #[test]
    fn more_flags_after_a_value_stay_flags() {
        for (value, words) in [("4 --verbose", vec!["--key=4", "--verbose"]), ("4 --a b ", vec!["--key=4", "--a", "b"])]
        {
            assert_eq!(argument(value), value);
            let words: Vec<_> = words.into_iter().chain(["--next"]).map(str::to_owned).collect();
            assert_eq!(seen_by_ray(value), (true, words));
        }
    }

    #[test]
    fn everything_else_arrives_as_data() {
        for value in [
            "4; touch pwned",
            "4 && touch pwned",
            "4 | tee pwned",
            "4 & touch pwned",
            "4\ntouch pwned",
            "4 --x\ntouch pwned",
            "$(touch pwned)",
            "`touch pwned`",
            "`id`",
            "\"$(touch pwned)\"",
            "\"`touch pwned`\"",
            "\"$$(touch pwned)\"",
            "$$(touch pwned)",
            "$$$$(touch pwned)",
            "${x:-$(touch pwned)}",
            "${x:-`touch pwned`}",
            "${x@P}",
            "${!x}",
            "${x[$(touch pwned)]}",
            "$((a[$(touch pwned)]))",
            "<(touch pwned)",
            ">pwned",
            "4 >pwned",
            "' ; touch pwned",
            "\" ; touch pwned",
            "'a' ; touch pwned '",
            "it's",
            "\\",
            "4 # comment",
            "4 --x # comment",
            "4 touch",
            "/tmp/my dir",
            r#"{"a": 1, "b": 2}"#,
            r#"{"a":1}"#,
            "$'\\x41'",
            "pa$$word $$ (x",
            "a\u{1b}b",
        ] {
            let words = vec![format!("--key={value}"), "--next".to_owned()];
            assert_eq!(seen_by_ray(value), (true, words), "{value:?}");
        }
        assert!(!std::path::Path::new("pwned").exists());
    }

    #[test]
    fn a_line_break_at_the_end_is_noise() {
        assert_eq!(argument("'{\"a\": 1}'\n"), "'{\"a\": 1}'");
    }

    #[test]
    fn keys_are_flag_names_or_quoted() {
        assert_eq!(flag_name("num-cpus"), "num-cpus");
        assert_eq!(flag_name("x; reboot"), "'x; reboot'");
        assert_eq!(flag_name(""), "''");
    }
}
