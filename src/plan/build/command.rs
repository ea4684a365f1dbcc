//! What the Ray container runs.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Container;

use super::quote::{argument, flag_name};
use super::{Group, own_start, says_true};
use crate::api::RayCluster;
use crate::api::names::annotations::OVERWRITE_CONTAINER_CMD;
use crate::plan::config::PlanConfig;

/// Flags that Ray knows as `--flag=true` and `--flag=false`. All others with such a value are switches: there or not.
const NOT_SWITCHES: [&str; 3] = ["include-dashboard", "include-log-monitor", "log-color"];

/// The `ray start` line, byte for byte KubeRay's for ordinary values: parameters sorted, a blank on both sides of
/// each. How other values are written is said in [`super::quote`].
pub fn start_command(head: bool, params: &BTreeMap<String, String>) -> String {
    let flags = params.iter().map(|(key, value)| {
        let name = flag_name(key);
        match value.trim().to_ascii_lowercase().as_str() {
            switch @ ("true" | "false") if !NOT_SWITCHES.contains(&key.as_str()) => match switch {
                "true" => format!(" --{name} "),
                _ => String::new(),
            },
            _ => format!(" --{name}={} ", argument(value)),
        }
    });
    let start = if head { "ray start --head " } else { "ray start " };
    std::iter::once(start.to_owned()).chain(flags).collect()
}

/// Whether the container's command and args are left as they are: the user said so in an annotation of the cluster or
/// of the template, or they start Ray already.
pub(crate) fn keeps_its_command(group: Group, ray: &Container) -> bool {
    overwrites_command(group) || own_start::contains_ray_start(ray)
}

/// Annotation `ray.io/overwrite-container-cmd` on the cluster or the template.
pub(crate) fn overwrites_command(group: Group) -> bool {
    let template = group.template().metadata.as_ref().and_then(|m| m.annotations.as_ref());
    says_true(group.cluster.metadata.annotations.as_ref(), OVERWRITE_CONTAINER_CMD)
        || says_true(template, OVERWRITE_CONTAINER_CMD)
}

/// Makes the container run the user's own command first, if it has one, then Ray. The user's words are joined as text
/// of a shell line (KubeRay's behaviour, and users write them for it).
pub fn replace(ray: &mut Container, start: &str, config: &PlanConfig) {
    let own: String = ray.command.iter().chain(&ray.args).flatten().map(|word| format!(" {word} ")).collect();
    let own = if own.is_empty() { own } else { format!("{own} && ") };
    ray.command = Some(shell(config));
    ray.args = Some(vec![format!("{own}ulimit -n ${{RAY_START_ULIMIT_OPEN_FILES:-65536}}; {start}")]);
}

/// The shell that runs what we write.
pub fn shell(config: &PlanConfig) -> Vec<String> {
    let options = if config.login_shell { "-cl" } else { "-c" };
    ["/bin/bash", options, "--"].map(str::to_owned).to_vec()
}

/// Whether Ray's autoscaler runs in the version that the user named v2.
pub fn autoscaler_is_v2(cluster: &RayCluster) -> bool {
    autoscaler_version(cluster) == Some("v2")
}

/// The autoscaler's version when the autoscaler is on and the user named one.
pub fn autoscaler_version(cluster: &RayCluster) -> Option<&str> {
    let on = cluster.spec.enable_in_tree_autoscaling == Some(true);
    cluster.spec.autoscaler_options.as_ref().filter(|_| on)?.version.as_deref()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(params: &[(&str, &str)]) -> String {
        start_command(false, &params.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect())
    }

    #[test]
    fn parameters_are_rendered_as_kuberay_does() {
        for (params, expected) in [
            (vec![], "ray start "),
            (vec![("port", "6380"), ("address", "a:1")], "ray start  --address=a:1  --port=6380 "),
            (vec![("block", "true"), ("no-monitor", "TRUE"), ("head", "False")], "ray start  --block  --no-monitor "),
            (
                vec![("log-color", "false"), ("include-dashboard", "True")],
                "ray start  --include-dashboard=True  --log-color=false ",
            ),
            (vec![("include-log-monitor", "false")], "ray start  --include-log-monitor=false "),
            (vec![("redis-password", "$REDIS_PASSWORD")], "ray start  --redis-password=$REDIS_PASSWORD "),
            (vec![("resources", r#""{\"C\": 1}""#)], r#"ray start  --resources="{\"C\": 1}" "#),
            (vec![("a", "1; reboot")], "ray start  --a='1; reboot' "),
            (vec![("a; reboot", "true")], "ray start  --'a; reboot' "),
            (vec![("a", "")], "ray start  --a= "),
        ] {
            assert_eq!(line(&params), expected);
        }
    }

    #[test]
    fn the_users_command_runs_first() {
        let words = |l: &[&str]| Some(l.iter().map(|s| (*s).to_owned()).collect());
        let mut c = Container {
            command: words(&["/bin/bash", "-lc", "--"]),
            args: words(&["echo hi"]),
            ..Container::default()
        };
        replace(&mut c, "ray start ", &PlanConfig::default());
        assert_eq!(c.command, words(&["/bin/bash", "-c", "--"]));
        let expected = " /bin/bash  -lc  --  echo hi  && ulimit -n ${RAY_START_ULIMIT_OPEN_FILES:-65536}; ray start ";
        assert_eq!(c.args, words(&[expected]));
    }
}
