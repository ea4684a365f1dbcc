//! The init container in which a worker waits for the head.

use k8s_openapi::api::core::v1::{Container, PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::address::HeadAddress;
use super::command::shell;
use super::quote::argument;
use crate::plan::config::PlanConfig;

const NAME: &str = "wait-gcs-ready";

/// Connects once a second and ends with the first success. Says what is wrong at first and then every 30 seconds. No
/// time limit: without the head a worker has nothing to do, and a new pod would wait just the same.
///
/// KubeRay runs `ray health-check` here, which loads Python: slow to start, and killed for its memory at the 256 MiB
/// that it gets. A connection needs neither. Whether the head is of the right version is `ray start`'s to find out.
const SCRIPT: &str = r#"trap 'exit 143' TERM INT
limit=; command -v timeout >/dev/null && limit='timeout 3'
said=-30
until why=`$limit bash -c 'exec 3<>"/dev/tcp/$0/$1"' "$host" "$port" 2>&1`; do
  if (( SECONDS - said >= 30 )); then
    said=$SECONDS; why=${why%%$'\n'*}
    echo "Waiting for Ray's head at $host:$port for ${SECONDS}s: ${why##*: }"
  fi
  sleep 1 & wait "$!"
done
echo "Ray's head answers at $host:$port after ${SECONDS}s."
"#;

/// Adds it after the user's init containers, with environment and mounts of the Ray container as the user wrote them.
/// Not when the user has one of that name.
pub fn inject<'a>(
    spec: &'a mut PodSpec,
    ray: &Container,
    address: &HeadAddress,
    config: &PlanConfig,
) -> Option<&'a mut Container> {
    let containers = spec.init_containers.get_or_insert_default();
    if containers.iter().any(|c| c.name == NAME) {
        return None;
    }
    let amounts =
        || Some([("cpu", "200m"), ("memory", "256Mi")].map(|(k, v)| (k.to_owned(), Quantity(v.to_owned()))).into());
    let script = format!("host={} port={}\n{SCRIPT}", argument(&address.fqdn), argument(&address.port));
    containers.push(Container {
        name: NAME.to_owned(),
        image: ray.image.clone(),
        image_pull_policy: ray.image_pull_policy.clone(),
        security_context: ray.security_context.clone(),
        env: ray.env.clone(),
        volume_mounts: ray.volume_mounts.clone(),
        resources: Some(ResourceRequirements { limits: amounts(), requests: amounts(), ..Default::default() }),
        command: Some(shell(config)),
        args: Some(vec![script]),
        ..Container::default()
    });
    containers.last_mut()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::TcpListener;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    fn script(host: &str, port: &str) -> String {
        let address = HeadAddress { service: host.into(), fqdn: host.into(), port: port.into() };
        let mut spec = PodSpec::default();
        inject(&mut spec, &Container::default(), &address, &PlanConfig::default());
        spec.init_containers.unwrap().remove(0).args.unwrap().remove(0)
    }

    #[test]
    fn it_ends_when_the_head_listens() {
        let head = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = head.local_addr().unwrap().port();
        drop(head);
        let mut command = Command::new("bash");
        let waiting = waiting_with(command.args(["-c", "--", &script("127.0.0.1", "$GCS_PORT")]), port);
        std::thread::sleep(Duration::from_millis(1500));
        let _head = TcpListener::bind(("127.0.0.1", port)).unwrap();
        let out = waiting.wait_with_output().unwrap();
        let text = String::from_utf8(out.stdout).unwrap();
        assert!(out.status.success(), "{text}");
        assert!(text.contains("0s: Connection refused") && text.contains("answers"), "{text}");
    }

    fn waiting_with(command: &mut Command, port: u16) -> std::process::Child {
        command.env("GCS_PORT", port.to_string()).stdout(Stdio::piped()).spawn().unwrap()
    }

    #[test]
    fn it_says_which_layer_fails_and_ends_at_once_when_told() {
        let mut command = Command::new("bash");
        let mut waiting = waiting_with(command.args(["-c", "--", &script("no-such-host.invalid", "6379")]), 0);
        std::thread::sleep(Duration::from_millis(1500));
        let begin = Instant::now();
        Command::new("kill").arg(waiting.id().to_string()).status().unwrap();
        assert_eq!(waiting.wait().unwrap().code(), Some(143));
        assert!(begin.elapsed() < Duration::from_secs(1));
        let mut text = String::new();
        waiting.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        assert!(text.contains("no-such-host.invalid:6379"), "{text}");
        assert!(text.to_lowercase().contains("name"), "{text}");
    }

    #[test]
    fn a_port_is_data() {
        assert!(script("h", "1; reboot").starts_with("host=h port='1; reboot'\n"));
    }

    #[test]
    fn one_of_that_name_is_left_to_the_user() {
        let own = Container { name: NAME.into(), ..Container::default() };
        let mut spec = PodSpec { init_containers: Some(vec![own]), ..PodSpec::default() };
        let address = HeadAddress { service: "s".into(), fqdn: "f".into(), port: "1".into() };
        inject(&mut spec, &Container::default(), &address, &PlanConfig::default());
        assert_eq!(spec.init_containers.unwrap().len(), 1);
    }
}
