//! Properties of the RayCluster planner in a model world: it settles, stays quiet, is safe, explains, and says what is
//! true. Planted defects show that each property can fail.

mod bugs;
mod checks;
mod happenings;
mod operator;
mod pods;
mod server;
mod world;

use std::cell::Cell;

use happenings::{Happening, happen, happenings};
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use ray_operator::api::RayCluster;
use ray_operator::plan::raycluster::plan;
use serde_json::json;
use world::{Broken, Planner, World};

/// A cluster as a history begins, and how it came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    Fresh,
    Autoscaled,
    Recreated,
    /// KubeRay made its pods.
    Adopted,
}

fn cluster(beginning: Beginning) -> RayCluster {
    let template = json!({"spec": {"containers": [{"name": "ray", "image": "rayproject/ray:2.52.0"}]}});
    let group = |name: &str, replicas: i32, hosts: i32| json!({"groupName": name, "replicas": replicas, "minReplicas": 0, "maxReplicas": 5, "numOfHosts": hosts, "template": template});
    let strategy = if beginning == Beginning::Recreated { "Recreate" } else { "None" };
    serde_json::from_value(json!({
        "apiVersion": "ray.io/v1", "kind": "RayCluster",
        "metadata": {"name": server::NAME, "namespace": server::NAMESPACE},
        "spec": {
            "rayVersion": "2.52.0",
            "enableInTreeAutoscaling": (beginning == Beginning::Autoscaled).then_some(true),
            "upgradeStrategy": {"type": strategy},
            "headGroupSpec": {"template": template},
            "workerGroupSpecs": [group("small", 2, 1), group("large", 1, 2)],
        }
    }))
    .expect("a RayCluster")
}

/// What one history comes to.
fn run(beginning: Beginning, events: &[Happening], planner: Planner, told: bool, deaf: bool) -> World {
    let original = cluster(beginning);
    let mut world = World::new(original.clone(), planner);
    world.history = told.then(Vec::new);
    world.hears_answers = !deaf;
    if beginning == Beginning::Adopted {
        world.server.made_by_kuberay(events.len().is_multiple_of(2));
    }
    world.operator.receive(&mut world.server, usize::MAX);
    for event in events {
        if world.broken.is_some() {
            return world;
        }
        happen(&mut world, event, &original);
    }
    world.end();
    world
}

/// The first history that breaks a property, made as short as it goes, or `None` after `count` of them.
fn search(beginning: Beginning, count: u32, planner: Planner, deaf: bool, shrink: bool) -> Option<(Broken, String)> {
    let most = if shrink { 4096 } else { 0 };
    let config = Config { cases: count, failure_persistence: None, max_shrink_iters: most, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::XorShift));
    // While it is being shortened the history must break the same property.
    let first = Cell::new(None);
    let outcome = runner.run(&happenings(), |events| match run(beginning, &events, planner, false, deaf).broken {
        Some(broken) if first.get().is_none_or(|p| p == broken.property) => {
            first.set(Some(broken.property));
            Err(TestCaseError::fail(broken.property))
        }
        _ => Ok(()),
    });
    match outcome {
        Ok(()) => None,
        Err(TestError::Fail(_, events)) => {
            let world = run(beginning, &events, planner, true, deaf);
            let broken = world.broken.expect("it breaks each time");
            let story = format!("{events:?}\n{}", world.history.unwrap_or_default().join("\n"));
            Some((broken, story))
        }
        Err(TestError::Abort(why)) => panic!("{why}"),
    }
}

/// All histories together: many in the full run, fewer in the everyday one.
fn count() -> u32 {
    std::env::var("HISTORIES").ok().and_then(|n| n.parse().ok()).unwrap_or(1_200)
}

fn holds(beginning: Beginning) {
    if let Some((broken, story)) = search(beginning, count().div_ceil(4), plan, false, true) {
        panic!("{}: {}\n{story}", broken.property, broken.detail);
    }
}

#[test]
fn any_history_of_a_fresh_cluster() {
    holds(Beginning::Fresh);
}

#[test]
fn any_history_with_the_autoscaler_on() {
    holds(Beginning::Autoscaled);
}

#[test]
fn any_history_under_recreate() {
    holds(Beginning::Recreated);
}

#[test]
fn any_history_of_a_cluster_that_kuberay_made() {
    holds(Beginning::Adopted);
}

#[test]
fn a_quiet_start_costs_one_create_per_child_and_four_status_writes() {
    let mut world = World::new(cluster(Beginning::Fresh), plan);
    world.operator.receive(&mut world.server, usize::MAX);
    assert!(world.pass(), "the first pass makes the children");
    assert_eq!(world.server.writes, 7, "two Services, one head, four workers");
    world.settle("started");
    assert_eq!(world.broken, None);
    assert_eq!(world.server.writes, 7, "nothing was made twice");
    assert!(world.status_writes <= 4, "{} status writes", world.status_writes);
}
