//! Does the container start Ray by itself, with which flags, and does it stay?
//!
//! KubeRay leaves a container alone whose command or args contain `ray start`. Such a script often ends as soon as
//! `ray start` has put Ray's processes into the background; the container would end and begin again for ever.

use std::path::Path;

use k8s_openapi::api::core::v1::Container;

use super::shell::{self, Word};

/// A `ray start` found in a container's own command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnStart {
    /// The words after `start`.
    args: Vec<Word>,
    /// It takes the shell's place, so that nothing after it is run.
    pub replaces_shell: bool,
}

/// Whether `ray start` stays in the foreground.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocks {
    Yes,
    No,
    /// A variable among its words may hold `--block`.
    Perhaps,
}

impl OwnStart {
    /// The value of `--name=value` or `--name value`, if it is in the text rather than in a variable.
    pub fn flag(&self, name: &str) -> Option<&str> {
        let value_of = |word: &Word| word.text.strip_prefix("--")?.strip_prefix(name).map(str::to_owned);
        let at = self.args.iter().position(|w| value_of(w).is_some_and(|v| v.is_empty() || v.starts_with('=')))?;
        let word = &self.args[at];
        let value = match word.text.split_once('=') {
            Some((_, value)) => (value, word.expands),
            None => self.args.get(at + 1).map(|w| (w.text.as_str(), w.expands))?,
        };
        (!value.1).then_some(value.0)
    }

    pub fn blocks(&self) -> Blocks {
        if self.args.iter().any(|w| w.text == "--block" || w.text == "--block=true") {
            Blocks::Yes
        } else if self.args.iter().any(|w| w.expands && (w.text.starts_with('$') || w.text.starts_with('`'))) {
            Blocks::Perhaps
        } else {
            Blocks::No
        }
    }

    fn is_head(&self) -> bool {
        self.args.iter().any(|w| w.text == "--head")
    }
}

/// Whether command and args contain `ray start`: KubeRay's search for that text in all of them joined, and also the
/// form `["ray", "start"]`, which KubeRay misses and runs a second start after.
pub fn contains_ray_start(container: &Container) -> bool {
    let text = elements(container).join(" ");
    let words: Vec<&str> = text.split_whitespace().collect();
    text.contains("ray start") || words.windows(2).any(|w| is_ray(w[0]) && w[1] == "start")
}

/// Every `ray start` of the container's own command.
pub fn own_starts(container: &Container) -> Vec<OwnStart> {
    let elements = elements(container);
    match shell_script(&elements) {
        Some(at) => starts_in(elements[at]),
        None => {
            let words = elements.iter().map(|e| Word { text: (*e).to_owned(), expands: e.contains("$(") }).collect();
            start_of(words).into_iter().collect()
        }
    }
}

/// The `ray start` of the head among several: the first with `--head`, else the first.
pub fn head_start(starts: &[OwnStart]) -> Option<&OwnStart> {
    starts.iter().find(|s| s.is_head()).or(starts.first())
}

/// The container's own shell script, for reading and changing: `bash -c <script>` spread over command and args in
/// any way, also behind a wrapper such as `tini --`.
pub fn script_mut(container: &mut Container) -> Option<&mut String> {
    let at = shell_script(&elements(container))?;
    let in_command = container.command.as_ref().map_or(0, Vec::len);
    match at.checked_sub(in_command) {
        Some(at) => container.args.as_mut()?.get_mut(at),
        None => container.command.as_mut()?.get_mut(at),
    }
}

fn elements(container: &Container) -> Vec<&str> {
    container.command.iter().chain(&container.args).flatten().map(String::as_str).collect()
}

/// Where in `[bash, -c, script]` the script is.
fn shell_script(elements: &[&str]) -> Option<usize> {
    let shell = elements.iter().position(|e| matches!(base_name(e), "bash" | "sh" | "dash" | "ash" | "ksh" | "zsh"))?;
    let mut has_script = false;
    let mut at = shell + 1;
    while let Some(option) = elements.get(at).filter(|e| e.starts_with(['-', '+'])) {
        at += 1;
        if *option == "--" {
            break;
        }
        let letters = if option.starts_with("--") { "" } else { &option[1..] };
        has_script |= letters.contains('c');
        if letters.ends_with(['o', 'O']) {
            at += 1;
        }
    }
    (has_script && at < elements.len()).then_some(at)
}

fn starts_in(script: &str) -> Vec<OwnStart> {
    let mut found = Vec::new();
    for command in shell::commands(script) {
        if command.first().is_some_and(|w| matches!(w.text.as_str(), "echo" | "printf")) {
            continue;
        }
        // `su ray -c "ray start --head"`: a script inside a word.
        let nested = command.iter().filter(|w| w.text.contains("ray start"));
        found.extend(nested.flat_map(|w| starts_in(&w.text)));
        found.extend(start_of(command));
    }
    found
}

fn start_of(mut words: Vec<Word>) -> Option<OwnStart> {
    let at = words.windows(2).position(|w| is_ray(&w[0].text) && w[1].text == "start")?;
    let args = words.split_off(at + 2);
    Some(OwnStart { args, replaces_shell: words.iter().any(|w| w.text == "exec") })
}

fn is_ray(word: &str) -> bool {
    base_name(word) == "ray"
}

fn base_name(path: &str) -> &str {
    Path::new(path).file_name().and_then(|n| n.to_str()).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn container(command: &[&str], args: &[&str]) -> Container {
        let list = |l: &[&str]| (!l.is_empty()).then(|| l.iter().map(|s| (*s).to_owned()).collect());
        Container { command: list(command), args: list(args), ..Container::default() }
    }

    #[test]
    fn a_start_is_found_where_it_is_run() {
        use Blocks::{No, Perhaps, Yes};
        for (script, blocks) in [
            ("ray start --head", vec![No]),
            ("ray start --head --block", vec![Yes]),
            ("ray start --head --block=false", vec![No]),
            ("ray start --head \\\n  --block", vec![Yes]),
            ("ray start --head # --block", vec![No]),
            ("ray start --head '--block'", vec![Yes]),
            ("ray start --head; echo --block", vec![No]),
            ("ray start --head $MORE", vec![Perhaps]),
            ("ray start --address=$HEAD", vec![No]),
            ("ray start --head --block & wait", vec![Yes]),
            ("# ray start --head\nsleep 1", vec![]),
            ("echo 'ray start'; echo ray start", vec![]),
            ("cat <<E\nray start --head\nE", vec![]),
            ("/opt/venv/bin/ray start --head", vec![No]),
            ("exec ray start --head --block", vec![Yes]),
            ("A=1 nohup ray start --head 2>&1 >log &", vec![No]),
            ("if h; then ray start --head --block; else ray start --address=$H; fi", vec![Yes, No]),
            ("su ray -c \"ray start --head --block\"", vec![Yes]),
            ("ray stop; ray status", vec![]),
        ] {
            let found = own_starts(&container(&["bash", "-c"], &[script]));
            assert_eq!(found.iter().map(OwnStart::blocks).collect::<Vec<_>>(), blocks, "{script:?}");
        }
    }

    #[test]
    fn the_script_is_found_in_every_form() {
        for (command, args) in [
            (vec!["/bin/bash", "-c"], vec!["S"]),
            (vec!["/bin/bash", "-c", "S"], vec![]),
            (vec![], vec!["bash", "-lc", "S", "arg0"]),
            (vec!["/bin/sh", "-ec", "--"], vec!["S"]),
            (vec!["bash"], vec!["-o", "pipefail", "-c", "S"]),
            (vec!["bash", "--login", "-euxo", "pipefail", "-c"], vec!["S"]),
            (vec!["/usr/bin/tini", "--", "bash", "-c"], vec!["S"]),
            (vec!["/usr/bin/env", "bash", "-c", "S"], vec![]),
        ] {
            let mut c = container(&command, &args);
            assert_eq!(script_mut(&mut c).map(|s| s.as_str()), Some("S"), "{command:?} {args:?}");
        }
        for (command, args) in
            [(vec!["ray"], vec!["start"]), (vec!["bash", "/run.sh"], vec![]), (vec!["bash", "-c"], vec![])]
        {
            assert_eq!(script_mut(&mut container(&command, &args)), None);
        }
    }

    #[test]
    fn ray_start_is_seen_in_text_and_in_lists() {
        for (command, args, contained) in [
            (vec!["bash", "-c"], vec!["ray start"], true),
            (vec!["ray", "start"], vec!["--head"], true),
            (vec!["/usr/bin/ray"], vec!["start"], true),
            (vec!["bash", "-c"], vec!["/bin/ray  start"], true),
            (vec!["bash", "-c"], vec!["echo ray  startled"], false),
            (vec!["bash", "-c"], vec!["xray start"], true),
            (vec![], vec![], false),
        ] {
            assert_eq!(contains_ray_start(&container(&command, &args)), contained, "{command:?} {args:?}");
        }
    }

    #[test]
    fn flags_are_read_from_the_text() {
        let starts = own_starts(&container(
            &["bash", "-c"],
            &["ray start --head --port=6380 --dashboard-port 8266 --node-ip-address=$IP"],
        ));
        let start = head_start(&starts).unwrap();
        assert_eq!(start.flag("port"), Some("6380"));
        assert_eq!(start.flag("dashboard-port"), Some("8266"));
        assert_eq!(start.flag("node-ip-address"), None);
        assert_eq!(start.flag("dashboard"), None);
        let starts = own_starts(&container(&["ray", "start", "--head", "--port", "$(PORT)"], &[]));
        assert_eq!(starts[0].flag("port"), None);
    }
}
