//! Keeps a container alive whose own script starts Ray without `--block`.
//!
//! Such a script ends once Ray's processes are in the background. A wait is appended to it, and a trap put before, that
//! - passes on the failure of the script's last command, so that a `ray start` that fails still ends the container;
//! - ends the container when the raylet is gone, or when nothing was left running in the first place (which is how
//!   `ray start ... & wait` looks when it fails: `wait` itself says nothing);
//! - ends within a second when the pod is deleted: the first process of a container ignores SIGTERM unless it asks
//!   for it. The raylet gets the signal first, so that it can sign off at the head. A trap of the user's own wins.
//!
//! The text is plain POSIX shell, and free of `$$` and `$(`, which the kubelet would change.

use k8s_openapi::api::core::v1::Container;

use super::Remark;
use super::own_start::{Blocks, own_starts, script_mut};
use super::shell;

const BEFORE: &str = r#"trap '[ -z "${raylet:-}" ] || { kill "$raylet"; sleep 0.5; }; exit 143' TERM INT # by ray-operator
"#;
const AFTER: &str = r#"
# Added by ray-operator: Ray was started without --block, so this shell stays for it.
ray_status=$?; set +efux
[ "$ray_status" -eq 0 ] || exit "$ray_status"
seen=
read -r self _ </proc/self/stat
while :; do
  raylet=; others=
  for stat in /proc/[0-9]*/stat; do
    { read -r pid name state _ <"$stat"; } 2>/dev/null || continue
    case "$pid:$state" in 1:*|"$self":*|*:Z) continue;; esac
    others=yes
    [ "$name" != "(raylet)" ] || raylet=$pid
  done
  if [ -n "$raylet" ]; then seen=yes
  elif [ -n "$seen" ]; then echo "ray-operator: the raylet has ended" >&2; exit 1
  elif [ -z "$others" ]; then echo "ray-operator: ray start left nothing running" >&2; exit 1
  fi
  sleep 3 & wait "$!"
done
"#;

/// Appends the wait if the container's own script needs one. What is to be said about it, if anything.
pub fn keep_alive(container: &mut Container) -> Option<Remark> {
    let starts = own_starts(container);
    if starts.iter().all(|s| s.blocks() == Blocks::Yes) {
        return None;
    }
    let certain = starts.iter().any(|s| s.blocks() == Blocks::No);
    let lost = starts.iter().any(|s| s.blocks() == Blocks::No && s.replaces_shell);
    let name = container.name.clone();
    let Some(script) = script_mut(container).filter(|_| !lost) else {
        return certain.then_some(Remark::EndsAfterStart { container: name });
    };
    if stays_by_itself(&shell::commands(script)) {
        return None;
    }
    let backslashes = script.len() - script.trim_end_matches('\\').len();
    // A last line that asks for one more gets an empty one.
    let more = if backslashes % 2 == 1 { "\n" } else { "" };
    *script = format!("{BEFORE}{script}{more}{AFTER}");
    certain.then_some(Remark::KeptAlive { container: name })
}

/// The usual ways in which a script waits for ever: `sleep infinity`, `tail -f`, `while true`.
fn stays_by_itself(commands: &[Vec<shell::Word>]) -> bool {
    commands.iter().any(|c| {
        let mut words = c.iter().map(|w| w.text.as_str()).skip_while(|w| matches!(*w, "then" | "do" | "else" | "exec"));
        match (words.next(), words.next()) {
            (Some("sleep"), Some("infinity" | "inf")) => true,
            (Some("tail"), Some(option)) => option.starts_with('-') && option.to_ascii_lowercase().contains('f'),
            (Some("while"), Some("true" | ":" | "[ 1 ]")) | (Some("until"), Some("false")) => true,
            _ => false,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::names::fnv1a;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;
    use std::process::{Command, Output};
    use std::time::{Duration, Instant};

    fn container(script: &str) -> Container {
        let list = |l: &[&str]| Some(l.iter().map(|s| (*s).to_owned()).collect());
        Container {
            name: "ray".into(),
            command: list(&["/bin/bash", "-c"]),
            args: list(&[script]),
            ..Container::default()
        }
    }

    /// The script after `keep_alive`, and what is said about it.
    fn kept(script: &str) -> (String, Option<Remark>) {
        let mut c = container(script);
        let remark = keep_alive(&mut c);
        (c.args.unwrap().remove(0), remark)
    }

    #[test]
    fn only_scripts_that_would_end_are_changed() {
        let said = |container: &str| Some(Remark::KeptAlive { container: container.to_owned() });
        for (script, changed, remark) in [
            ("ray start --head", true, said("ray")),
            ("ray start --address=$RAY_HEAD_ADDRESS & wait", true, said("ray")),
            ("ray start --head $MORE", true, None),
            ("ray start --head --block", false, None),
            ("ray start --head --block &\nwait", false, None),
            ("ray start --head; sleep infinity", false, None),
            ("ray start --head && tail -f /dev/null", false, None),
            ("ray start --head; while true; do sleep 9; done", false, None),
            ("./start-ray.sh", false, None),
            ("exec ray start --head", false, Some(Remark::EndsAfterStart { container: "ray".into() })),
        ] {
            let (after, said) = kept(script);
            assert_eq!((after != script, said), (changed, remark), "{script:?}");
        }
        // The last line asks for one more; it must not get ours.
        assert!(kept("ray start --head\\").0.contains("--head\\\n\n#"));
        let mut exec_form =
            Container { name: "ray".into(), args: Some(vec!["ray".into(), "start".into()]), ..Container::default() };
        let before = exec_form.clone();
        assert_eq!(keep_alive(&mut exec_form), Some(Remark::EndsAfterStart { container: "ray".into() }));
        assert_eq!(exec_form, before);
    }

    #[test]
    fn the_kubelet_leaves_the_wait_alone() {
        for text in [BEFORE, AFTER] {
            assert!(!text.contains("$$") && !text.contains("$("));
        }
    }

    #[test]
    fn the_traps_of_the_user_stay_in_charge() {
        let script = "trap 'echo mine; exit 5' TERM; ray start --head";
        let Some((out, _)) = run("bash", "works", script) else { return };
        assert_eq!((out.status.code(), out.stdout.as_slice()), (Some(5), b"mine\n".as_slice()));
    }

    /// A folder with a `ray` that behaves as named, and a `raylet` that sleeps.
    fn fake_ray(behaviour: &str, script: &str) -> PathBuf {
        let name = format!("ray-operator-stay-{}-{:x}", std::process::id(), fnv1a(script.as_bytes()));
        let dir = std::env::temp_dir().join(name);
        fs::create_dir_all(&dir).unwrap();
        let ray = match behaviour {
            "works" => {
                "#!/bin/sh\nsetsid raylet 60 >/dev/null 2>&1 </dev/null &\nsetsid sh -c 'sleep 1; kill -TERM 1' >/dev/null 2>&1 &\nsleep 0.2\n"
            }
            "dies" => "#!/bin/sh\nsetsid raylet 1 >/dev/null 2>&1 </dev/null &\nsleep 0.2\n",
            _ => "#!/bin/sh\nexit 7\n",
        };
        fs::write(dir.join("ray"), ray).unwrap();
        fs::set_permissions(dir.join("ray"), fs::Permissions::from_mode(0o755)).unwrap();
        std::os::unix::fs::symlink("/bin/sleep", dir.join("raylet")).unwrap();
        dir
    }

    /// Runs the kept script as the first process of its own process namespace, as in a container. `None` where this
    /// machine has no such namespaces for us.
    fn run(shell: &str, behaviour: &str, script: &str) -> Option<(Output, Duration)> {
        let isolated = ["-rpf", "--kill-child", "--mount-proc"];
        if !Command::new("unshare").args(isolated).arg("true").status().is_ok_and(|s| s.success()) {
            eprintln!("skipped: no process namespaces here");
            return None;
        }
        let dir = fake_ray(behaviour, &format!("{shell}: {behaviour}: {script}"));
        let path = format!("{}:/usr/bin:/bin", dir.display());
        let begin = Instant::now();
        let kept = kept(script).0;
        // A container that never ends is a failure too, not a test that hangs.
        let mut limited = Command::new("timeout");
        limited.args(["-s", "KILL", "15", "unshare"]).args(isolated).args([shell, "-c", &kept]).env("PATH", path);
        let out = limited.output().unwrap();
        let took = begin.elapsed();
        fs::remove_dir_all(dir).ok();
        Some((out, took))
    }

    #[test]
    fn a_failing_start_ends_the_container_with_its_code() {
        for shell in ["bash", "dash"] {
            for (script, code) in [
                ("ray start --head", 7),
                ("set -e; ray start --head; true", 7),
                ("ray start --head || exit 9", 9),
                // `wait` hides the code; that nothing runs shows the failure.
                ("ray start --head & wait", 1),
                ("ray start --head & sleep 0.5", 1),
            ] {
                let Some((out, took)) = run(shell, "fails", script) else { return };
                assert_eq!(out.status.code(), Some(code), "{shell}: {script}: {out:?}");
                assert!(took < Duration::from_secs(5), "{shell}: {script}: {took:?}");
            }
        }
    }

    #[test]
    fn the_container_stays_while_the_raylet_lives_and_no_longer() {
        for script in ["ray start --head", "set -euf; ray start --head & wait", "ray start --head \\"] {
            let Some((out, took)) = run("bash", "dies", script) else { return };
            assert_eq!(out.status.code(), Some(1), "{script}: {out:?}");
            assert!(String::from_utf8_lossy(&out.stderr).contains("raylet has ended"), "{script}: {out:?}");
            assert!(took > Duration::from_secs(1), "{script}: {took:?}");
        }
    }

    #[test]
    fn a_signal_ends_it_within_a_second() {
        for shell in ["bash", "dash"] {
            for script in ["ray start --head", "ray start --address=x & wait", "sleep 60 & ray start --head & wait"] {
                let Some((out, took)) = run(shell, "works", script) else { return };
                assert_eq!(out.status.code(), Some(143), "{shell}: {script}: {out:?}");
                assert!(took < Duration::from_millis(2000), "{shell}: {script}: {took:?}");
            }
        }
    }
}
