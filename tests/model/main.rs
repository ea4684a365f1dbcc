//! Properties of the RayCluster planner in a model world: it settles, stays quiet, is safe, and explains.

mod world;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use ray_operator::api::RayCluster;
use serde_json::json;
use world::{Fate, World};

/// One thing that happens.
#[derive(Clone, Debug)]
enum Happening {
    Pass,
    Deliver(usize),
    Time(i64),
    Ready(usize),
    Unready(usize),
    Fail(usize),
    Succeed(usize),
    Delete(usize),
    Vanish(usize),
    Reap,
    Replicas(usize, i32),
    Suspend(bool),
    DropGroup,
    Restart,
    Relist,
    Fates(Vec<Fate>),
    Stranger,
}

fn happening() -> impl Strategy<Value = Happening> {
    use Happening::*;
    let fate = prop_oneof![
        4 => Just(Fate::Answered),
        2 => Just(Fate::AnswerLost),
        2 => Just(Fate::Refused),
        1 => Just(Fate::DiesAfter),
        1 => Just(Fate::DiesBefore),
    ];
    prop_oneof![
        12 => Just(Pass),
        8 => (0..4usize).prop_map(Deliver),
        3 => (1..120i64).prop_map(Time),
        8 => (0..16usize).prop_map(Ready),
        2 => (0..16usize).prop_map(Unready),
        3 => (0..16usize).prop_map(Fail),
        1 => (0..16usize).prop_map(Succeed),
        3 => (0..16usize).prop_map(Delete),
        2 => (0..16usize).prop_map(Vanish),
        3 => Just(Reap),
        3 => (0..2usize, 0..7i32).prop_map(|(g, n)| Replicas(g, n)),
        1 => any::<bool>().prop_map(Suspend),
        1 => Just(DropGroup),
        1 => Just(Restart),
        2 => Just(Relist),
        3 => proptest::collection::vec(fate, 1..6).prop_map(Fates),
        1 => Just(Stranger),
    ]
}

fn cluster(hosts: i32) -> RayCluster {
    let template = json!({"spec": {"containers": [{"name": "ray", "image": "rayproject/ray:2.52.0"}]}});
    let group = |name: &str, replicas: i32, hosts: i32| json!({"groupName": name, "replicas": replicas, "minReplicas": 0, "maxReplicas": 5, "numOfHosts": hosts, "template": template});
    serde_json::from_value(json!({
        "apiVersion": "ray.io/v1", "kind": "RayCluster",
        "metadata": {"name": "model", "namespace": "default"},
        "spec": {
            "rayVersion": "2.52.0",
            "headGroupSpec": {"template": template},
            "workerGroupSpecs": [group("small", 2, 1), group("large", 1, hosts)],
        }
    }))
    .expect("a RayCluster")
}

fn happen(world: &mut World, what: &Happening) {
    use Happening::*;
    let pick = |world: &World, n: usize| world.nth(n).filter(|name| !name.starts_with("stranger"));
    match what {
        Pass => drop(world.pass()),
        Deliver(n) => world.deliver(*n),
        Time(seconds) => world.pass_time(*seconds),
        Ready(n) => pick(world, *n).iter().for_each(|p| world.make_ready(p)),
        Unready(n) => pick(world, *n).iter().for_each(|p| world.unready(p)),
        Fail(n) => pick(world, *n).iter().for_each(|p| world.fail(p, "Failed")),
        Succeed(n) => pick(world, *n).iter().for_each(|p| world.fail(p, "Succeeded")),
        Delete(n) => pick(world, *n).iter().for_each(|p| world.user_deletes(p)),
        Vanish(n) => pick(world, *n).iter().for_each(|p| world.vanish(p)),
        Reap => world.reap(),
        Replicas(group, n) => world.edit(|c| {
            if let Some(g) = c.spec.worker_group_specs.iter_mut().flatten().nth(*group) {
                g.replicas = Some(*n);
            }
        }),
        Suspend(yes) => world.edit(|c| c.spec.suspend = yes.then_some(true)),
        DropGroup => world.edit(|c| {
            c.spec.worker_group_specs.iter_mut().for_each(|g| g.truncate(1));
        }),
        Restart => world.restart(),
        Relist => world.relist(),
        Fates(fates) => world.fates.extend(fates),
        Stranger => world.stranger("stranger-pod", "small"),
    }
}

fn histories(count: u32, hosts: i32) {
    let config = Config { cases: count, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let strategy = proptest::collection::vec(happening(), 5..80);
    runner
        .run(&strategy, |events| {
            let mut world = World::new(cluster(hosts));
            for event in &events {
                happen(&mut world, event);
            }
            world.settle();
            Ok(())
        })
        .unwrap();
}

/// Histories per property: many in the full run, fewer in the everyday one.
fn count() -> u32 {
    std::env::var("HISTORIES").ok().and_then(|n| n.parse().ok()).unwrap_or(1_000)
}

#[test]
fn any_history_settles_safely_with_single_hosts() {
    histories(count(), 1);
}

#[test]
fn any_history_settles_safely_with_two_hosts_per_replica() {
    histories(count(), 2);
}

#[test]
fn a_quiet_start_costs_one_create_per_child_and_three_status_writes() {
    let mut world = World::new(cluster(1));
    assert!(world.pass(), "the first pass makes the children");
    assert_eq!(world.writes, 5, "one Service, one head, three workers\n{}", world.history.join("\n"));
    world.settle();
    assert_eq!(world.writes, 5, "nothing was made twice\n{}", world.history.join("\n"));
    assert!(world.status_writes <= 3, "{} status writes", world.status_writes);
}
