//! Lists in sentences.

/// The first `most` of some names, and how many more there are: a message has bounds.
pub fn some_of(names: &[&str], most: usize) -> String {
    let shown = names[..most.min(names.len())].join(", ");
    match names.len().saturating_sub(most) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::some_of;

    #[test]
    fn what_is_left_out_is_counted() {
        assert_eq!(some_of(&["a", "b"], 2), "a, b");
        assert_eq!(some_of(&["a", "b", "c"], 2), "a, b and 1 more");
    }
}
