//! Which texts Kubernetes and Ray accept: names, labels, numbers.

/// A lower-case letter, then letters, digits and '-', a letter or digit last; at most 63 (RFC 1035).
pub fn is_dns_1035_label(s: &str) -> bool {
    s.starts_with(|c: char| c.is_ascii_lowercase()) && is_dns_1123_label(s)
}

/// As [`is_dns_1035_label`], but a digit may stand first.
pub fn is_dns_1123_label(s: &str) -> bool {
    s.len() <= 63
        && s.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && ends_are_alphanumeric(s)
}

/// What Kubernetes takes as a label's value.
pub fn is_label_value(s: &str) -> bool {
    s.is_empty() || is_name_part(s)
}

/// What Kubernetes takes as a label's key: a name of at most 63, perhaps after a domain and '/'.
pub fn is_qualified_name(s: &str) -> bool {
    match s.split_once('/') {
        Some((prefix, name)) => prefix.len() <= 253 && prefix.split('.').all(is_dns_1123_label) && is_name_part(name),
        None => is_name_part(s),
    }
}

/// A worker group's name: fit for a label and, in lower case, inside the names of pods.
pub fn is_group_name(s: &str) -> bool {
    s.len() <= 63 && s.split('.').all(|part| is_dns_1123_label(&part.to_ascii_lowercase()))
}

/// The value of a numeric flag of `ray start`: a number that is not negative, or something the shell fills in.
pub fn is_number_or_expansion(s: &str) -> bool {
    s.starts_with('$') || (s.starts_with(|c: char| c.is_ascii_digit()) && s.parse::<f64>().is_ok())
}

fn is_name_part(s: &str) -> bool {
    s.len() <= 63
        && s.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
        && ends_are_alphanumeric(s)
}

fn ends_are_alphanumeric(s: &str) -> bool {
    s.starts_with(|c: char| c.is_ascii_alphanumeric()) && s.ends_with(|c: char| c.is_ascii_alphanumeric())
}
