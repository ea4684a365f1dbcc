//! Reads a shell script as far as needed to see which simple commands it holds: words, quotes, comments, continued
//! lines, redirections, here-documents. Nothing is expanded.

/// A word after quotes and backslashes are resolved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Word {
    pub text: String,
    /// Some of the text is decided only at run time (`$NAME`, `$(...)`, backticks).
    pub expands: bool,
}

/// The simple commands of a script in the order of the text, reserved words (`then`, `do`, `{`) among their words.
pub fn commands(script: &str) -> Vec<Vec<Word>> {
    let mut reader =
        Reader { rest: script, done: Vec::new(), command: Vec::new(), word: None, here: Vec::new(), skip: None };
    reader.read();
    reader.done
}

/// The text of `word` as the shell would pass it on, provided that it is one word without expansions.
pub fn literal(word: &str) -> Option<String> {
    match commands(word).as_slice() {
        [command] => match command.as_slice() {
            [word] if !word.expands => Some(word.text.clone()),
            _ => None,
        },
        _ => None,
    }
}

/// What the next word is, when it is not a word of the command.
#[derive(Clone, Copy, PartialEq)]
enum Skip {
    /// The file of a redirection.
    Target,
    /// The end mark of a here-document; `true` when tabs before it do not count.
    HereMark(bool),
}

struct Reader<'a> {
    rest: &'a str,
    done: Vec<Vec<Word>>,
    command: Vec<Word>,
    word: Option<Word>,
    /// Here-documents that begin with the next line.
    here: Vec<(String, bool)>,
    skip: Option<Skip>,
}

impl Reader<'_> {
    fn read(&mut self) {
        while let Some(c) = self.next() {
            match c {
                '\\' => match self.next() {
                    Some('\n') | None => {}
                    Some(c) => self.push(c),
                },
                '\'' => self.single_quoted(),
                '"' => self.double_quoted(),
                '$' | '`' => self.expansion(c),
                '#' if self.word.is_none() => self.skip_line(),
                ' ' | '\t' | '\r' => self.end_word(),
                '\n' => {
                    self.end_command();
                    self.skip_here_documents();
                }
                '<' | '>' => self.redirection(c),
                '&' if self.rest.starts_with('>') => self.end_word(),
                ';' | '&' | '|' | '(' | ')' => self.end_command(),
                c => self.push(c),
            }
        }
        self.end_command();
    }

    fn next(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = &self.rest[c.len_utf8()..];
        Some(c)
    }

    fn word(&mut self) -> &mut Word {
        self.word.get_or_insert_with(Word::default)
    }

    fn push(&mut self, c: char) {
        self.word().text.push(c);
    }

    fn end_word(&mut self) {
        let Some(word) = self.word.take() else { return };
        match self.skip.take() {
            None => self.command.push(word),
            Some(Skip::Target) => {}
            Some(Skip::HereMark(tabs)) => self.here.push((word.text, tabs)),
        }
    }

    fn end_command(&mut self) {
        self.end_word();
        self.skip = None;
        if !self.command.is_empty() {
            self.done.push(std::mem::take(&mut self.command));
        }
    }

    fn skip_line(&mut self) {
        let end = self.rest.find('\n').unwrap_or(self.rest.len());
        self.rest = &self.rest[end..];
    }

    fn single_quoted(&mut self) {
        self.word();
        while let Some(c) = self.next() {
            if c == '\'' {
                return;
            }
            self.push(c);
        }
    }

    fn double_quoted(&mut self) {
        self.word();
        while let Some(c) = self.next() {
            match c {
                '"' => return,
                '\\' => match self.next() {
                    Some('\n') | None => {}
                    Some(c @ ('"' | '\\' | '$' | '`')) => self.push(c),
                    Some(c) => {
                        self.push('\\');
                        self.push(c);
                    }
                },
                '$' | '`' => self.expansion(c),
                c => self.push(c),
            }
        }
    }

    /// Keeps the text of `$name`, `${...}`, `$(...)` or backticks and marks the word. A `$` before anything else is
    /// itself.
    fn expansion(&mut self, opening: char) {
        self.push(opening);
        let closing = match (opening, self.rest.chars().next()) {
            ('`', _) => '`',
            (_, Some('{')) => '}',
            (_, Some('(')) => ')',
            (_, Some(c)) if c.is_ascii_alphanumeric() || "_@*#?-$!".contains(c) => {
                self.word().expands = true;
                return;
            }
            _ => return,
        };
        self.word().expands = true;
        let mut depth = usize::from(opening == '`');
        while let Some(c) = self.next() {
            self.push(c);
            match c {
                '\\' => {
                    if let Some(c) = self.next() {
                        self.push(c);
                    }
                }
                c if c == closing && depth <= 1 => return,
                c if c == closing => depth -= 1,
                '{' if closing == '}' => depth += 1,
                '(' if closing == ')' => depth += 1,
                _ => {}
            }
        }
    }

    fn redirection(&mut self, first: char) {
        // A number right before the operator is a file descriptor, not a word.
        if self.word.as_ref().is_some_and(|w| w.text.bytes().all(|b| b.is_ascii_digit())) {
            self.word = None;
        }
        self.end_word();
        self.skip = Some(Skip::Target);
        if first == '<' && self.rest.starts_with("<<") {
            self.rest = &self.rest[2..];
        } else if first == '<' && self.rest.starts_with('<') {
            self.rest = &self.rest[1..];
            let tabs = self.rest.starts_with('-');
            self.rest = self.rest.strip_prefix('-').unwrap_or(self.rest);
            self.skip = Some(Skip::HereMark(tabs));
        } else {
            self.rest = self.rest.trim_start_matches(['>', '<', '&', '|']);
            if self.rest.starts_with('(') {
                self.skip = None;
            }
        }
    }

    fn skip_here_documents(&mut self) {
        for (mark, tabs) in std::mem::take(&mut self.here) {
            while !self.rest.is_empty() {
                let end = self.rest.find('\n').unwrap_or(self.rest.len());
                let line = &self.rest[..end];
                self.rest = self.rest[end..].strip_prefix('\n').unwrap_or("");
                if mark == if tabs { line.trim_start_matches('\t') } else { line } {
                    break;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(script: &str) -> Vec<Vec<String>> {
        commands(script).into_iter().map(|c| c.into_iter().map(|w| w.text).collect()).collect()
    }

    #[test]
    fn commands_are_told_apart() {
        for (script, expected) in [
            ("", vec![]),
            ("a b", vec![vec!["a", "b"]]),
            (
                "a & b && c || d | e; f\ng",
                vec![vec!["a"], vec!["b"], vec!["c"], vec!["d"], vec!["e"], vec!["f"], vec!["g"]],
            ),
            ("a \\\n  b", vec![vec!["a", "b"]]),
            ("a # b; c\nd#e", vec![vec!["a"], vec!["d#e"]]),
            ("a 'b; c' \"d & e\" f\\ g", vec![vec!["a", "b; c", "d & e", "f g"]]),
            ("a '' \"\"", vec![vec!["a", "", ""]]),
            ("a 2>&1 >log b &>all c", vec![vec!["a", "b", "c"]]),
            ("a <in; b >>out", vec![vec!["a"], vec!["b"]]),
            ("cat <<EOF; b\nray start\nEOF\nc", vec![vec!["cat"], vec!["b"], vec!["c"]]),
            ("cat <<-'E F'\n\tx\n\tE F\nc", vec![vec!["cat"], vec!["c"]]),
            ("cat <<< text b", vec![vec!["cat", "b"]]),
            ("if a; then b; fi", vec![vec!["if", "a"], vec!["then", "b"], vec!["fi"]]),
            ("(a; b)", vec![vec!["a"], vec!["b"]]),
            ("a $(b; c) d", vec![vec!["a", "$(b; c)", "d"]]),
            ("a `b; c` ${d;e}", vec![vec!["a", "`b; c`", "${d;e}"]]),
            ("a \"$(b \\\" c)\" d", vec![vec!["a", "$(b \\\" c)", "d"]]),
            ("a 'unclosed b", vec![vec!["a", "unclosed b"]]),
            ("a \\", vec![vec!["a"]]),
        ] {
            assert_eq!(texts(script), expected, "{script:?}");
        }
    }

    #[test]
    fn expansions_are_marked() {
        let words = commands("a $B \"$C\" '$D' \\$E 5$ ${F} `g`").remove(0);
        let expands: Vec<_> = words.iter().map(|w| w.expands).collect();
        assert_eq!(expands, [false, true, true, false, false, false, true, true]);
    }

    #[test]
    fn a_literal_is_one_word_without_expansion() {
        assert_eq!(literal(r#""{\"C\": 1}""#).as_deref(), Some(r#"{"C": 1}"#));
        assert_eq!(literal(r"'it'\''s'").as_deref(), Some("it's"));
        assert_eq!(literal("$A"), None);
        assert_eq!(literal("a b"), None);
    }
}
