//! What Ray calls the accelerators of Kubernetes, and how it is told of them.

use std::collections::BTreeMap;

use serde_json::Value;

use super::quote::single_quoted;
use super::shell;

/// Resources of Kubernetes with a name of their own in Ray; the first that is not zero counts (KubeRay's rule).
pub const CUSTOM: [(&str, &str); 2] = [("aws.amazon.com/neuroncore", "neuron_cores"), ("google.com/tpu", "TPU")];

/// Reads the `resources` start parameter: a JSON object of numbers, bare, quoted for the shell, or both quoted and
/// escaped (`'"{\"C\": 1}"'`, the form of Ray's manual). `None` when it is something else.
pub fn parse_resources(param: &str) -> Option<BTreeMap<String, f64>> {
    let mut text = param.trim().to_owned();
    for _ in 0..3 {
        if let Some(found) = parse_object(text.trim_matches(|c: char| "'\"`".contains(c) || c.is_whitespace())) {
            return Some(found);
        }
        text = shell::literal(&text)?;
    }
    None
}

fn parse_object(text: &str) -> Option<BTreeMap<String, f64>> {
    if text.is_empty() {
        return Some(BTreeMap::new());
    }
    let object: BTreeMap<String, Value> = serde_json::from_str(text).ok()?;
    object.into_iter().map(|(name, amount)| Some((name, amount.as_f64()?))).collect()
}

/// The `resources` start parameter for these amounts: JSON in single quotes, names sorted.
pub fn render_resources(resources: &BTreeMap<String, f64>) -> String {
    let pairs: Vec<String> = resources.iter().map(|(name, n)| format!("{}:{n}", Value::from(name.as_str()))).collect();
    single_quoted(&format!("{{{}}}", pairs.join(",")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_are_read_in_every_quoting() {
        for param in [
            r#"{"C": 1, "D": 0.5}"#,
            r#"'{"C": 1, "D": 0.5}'"#,
            r#""{\"C\": 1, \"D\": 0.5}""#,
            r#"'"{\"C\": 1, \"D\": 0.5}"'"#,
            "`{\"C\":1,\"D\":0.5}` ",
            "'{\"C\": 1, \"D\": 0.5}'\n",
        ] {
            let read = parse_resources(param).unwrap_or_else(|| panic!("{param}"));
            assert_eq!(render_resources(&read), r#"'{"C":1,"D":0.5}'"#, "{param}");
        }
        assert_eq!(parse_resources(""), Some(BTreeMap::new()));
        for param in ["$RESOURCES", r#"{"C": "one"}"#, "C=1", "[1]", "'{\"C\": $N}'"] {
            assert_eq!(parse_resources(param), None, "{param}");
        }
    }

    #[test]
    fn a_quote_in_a_name_stays_inside() {
        let resources = BTreeMap::from([("it's".to_owned(), 1.0)]);
        assert_eq!(render_resources(&resources), r#"'{"it'\''s":1}'"#);
    }
}
