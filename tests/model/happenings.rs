//! What can happen to a cluster.

use proptest::prelude::*;
use ray_operator::api::RayCluster;
use ray_operator::api::children::Kind;
use ray_operator::api::raycluster::{ScaleStrategy, WorkerGroupSpec};
use ray_operator::observe::seen::FailureKind;
use serde_json::{Value, json};

use crate::operator::Head;
use crate::pods::is_dead;
use crate::server::{Server, Stored};
use crate::world::{Fate, World};

/// One thing that happens.
#[derive(Clone, Debug)]
pub enum Happening {
    Pass,
    Deliver(usize),
    DeliverOne(Kind, usize),
    Time(i64),
    Ready(usize),
    AllReady,
    Unready(usize),
    Restarts(usize),
    Unschedulable(usize),
    Fail(usize),
    Succeed(usize),
    Delete(usize),
    Vanish(usize),
    Hang(usize),
    LostNodesRemoved,
    Evicted,
    Reap,
    Collect,
    JobsEnd(bool),
    Replicas(usize, i32),
    Bounds(usize, i32, i32),
    Hosts(usize, i32),
    Suspend(bool),
    SuspendGroup(usize, bool),
    AddGroup(i32),
    DropGroup(usize),
    RenameGroup(usize),
    Image(usize, u8),
    Annotate(u8),
    Upgrade(bool),
    Autoscaling(bool),
    Victims(usize, usize),
    ListCleared(usize),
    Broken(u8),
    Mended,
    Feature(u8, bool),
    ClusterDeleted(bool),
    ClusterAgain,
    Restart,
    Relist(Kind),
    Fates(Vec<Fate>),
    Land(usize),
    Refuse(Kind, bool, FailureKind),
    Relent,
    Stranger(bool),
    ChildDeleted(usize),
    ChildChanged(usize),
    Answer(Head),
}

pub fn happenings() -> impl Strategy<Value = Vec<Happening>> {
    proptest::collection::vec(happening(), 5..60)
}

fn happening() -> impl Strategy<Value = Happening> {
    use Happening::*;
    let pod = || 0..16usize;
    let group = || 0..3usize;
    let kind = || prop_oneof![4 => Just(Kind::Pod), 2 => Just(Kind::RayCluster), 1 => Just(Kind::Service)];
    prop_oneof![
        45 => Just(Pass),
        30 => (0..6usize).prop_map(Deliver),
        9 => (kind(), 1..4usize).prop_map(|(k, n)| DeliverOne(k, n)),
        12 => prop_oneof![6 => 1..120i64, 1 => 600..3000i64].prop_map(Time),
        20 => pod().prop_map(Ready),
        8 => Just(AllReady),
        5 => pod().prop_map(Unready),
        2 => pod().prop_map(Restarts),
        2 => pod().prop_map(Unschedulable),
        8 => pod().prop_map(Fail),
        2 => pod().prop_map(Succeed),
        7 => pod().prop_map(Delete),
        5 => pod().prop_map(Vanish),
        4 => pod().prop_map(Hang),
        1 => Just(LostNodesRemoved),
        2 => Just(Evicted),
        8 => Just(Reap),
        3 => Just(Collect),
        1 => any::<bool>().prop_map(JobsEnd),
        10 => (group(), 0..7i32).prop_map(|(g, n)| Replicas(g, n)),
        2 => (group(), 0..3i32, 0..6i32).prop_map(|(g, a, b)| Bounds(g, a, b)),
        2 => (group(), 1..4i32).prop_map(|(g, n)| Hosts(g, n)),
        4 => any::<bool>().prop_map(Suspend),
        1 => (group(), any::<bool>()).prop_map(|(g, yes)| SuspendGroup(g, yes)),
        2 => (1..3i32).prop_map(AddGroup),
        3 => group().prop_map(DropGroup),
        1 => group().prop_map(RenameGroup),
        4 => (group(), 0..3u8).prop_map(|(g, n)| Image(g, n)),
        2 => (0..3u8).prop_map(Annotate),
        2 => any::<bool>().prop_map(Upgrade),
        2 => any::<bool>().prop_map(Autoscaling),
        6 => (group(), 1..3usize).prop_map(|(g, n)| Victims(g, n)),
        3 => group().prop_map(ListCleared),
        2 => (0..4u8).prop_map(Broken),
        3 => Just(Mended),
        3 => (0..5u8, any::<bool>()).prop_map(|(n, on)| Feature(n, on)),
        1 => any::<bool>().prop_map(ClusterDeleted),
        3 => Just(ClusterAgain),
        4 => Just(Restart),
        6 => kind().prop_map(Relist),
        10 => proptest::collection::vec(fate(), 1..6).prop_map(Fates),
        4 => (1..3usize).prop_map(Land),
        3 => refusal(),
        4 => Just(Relent),
        3 => any::<bool>().prop_map(Stranger),
        2 => (0..8usize).prop_map(ChildDeleted),
        2 => (0..8usize).prop_map(ChildChanged),
        5 => prop_oneof![4 => Just(Head::Well), 1 => Just(Head::Silent), 1 => Just(Head::Lonely)].prop_map(Answer),
    ]
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        6 => Just(Fate::Answered),
        3 => Just(Fate::AnswerLost),
        3 => Just(Fate::Lost),
        1 => Just(Fate::Late),
        1 => Just(Fate::DiesAfter),
        1 => Just(Fate::DiesBefore),
        1 => Just(Fate::DiesLate),
        1 => Just(Fate::Squatted),
    ]
}

fn refusal() -> impl Strategy<Value = Happening> {
    use FailureKind::*;
    let how = prop_oneof![Just(Forbidden), Just(QuotaExceeded), Just(AdmissionDenied), Just(Unavailable)];
    let what = prop_oneof![
        3 => Just((Kind::Pod, false)),
        2 => Just((Kind::Pod, true)),
        1 => Just((Kind::Service, false)),
        1 => Just((Kind::Secret, false)),
        1 => Just((Kind::Role, false)),
        1 => Just((Kind::NetworkPolicy, false)),
        1 => Just((Kind::Job, false)),
        1 => Just((Kind::RayCluster, false)),
    ];
    (what, how).prop_map(|((kind, deletes), how)| Happening::Refuse(kind, deletes, how))
}

pub fn happen(world: &mut World, what: &Happening, original: &RayCluster) {
    use Happening::*;
    match what {
        Pass => _ = world.pass(),
        Deliver(n) => world.operator.receive(&mut world.server, *n),
        DeliverOne(kind, n) => world.operator.receive_of(&mut world.server, *kind, *n),
        Restart => world.restart(),
        Relist(kind) => world.operator.relist(&mut world.server, *kind),
        Fates(fates) => world.fates.extend(fates),
        Land(n) => world.land(*n),
        Answer(head) => {
            world.head = *head;
            world.operator.ask(&world.server, *head);
        }
        Time(seconds) => world.pass_time(*seconds),
        ClusterAgain if world.server.cluster.is_none() => world.server.apply(original.clone()),
        other => {
            world.note(|| format!("{other:?}"));
            in_the_cluster(&mut world.server, other);
        }
    }
}

fn in_the_cluster(server: &mut Server, what: &Happening) {
    use Happening::*;
    let pod = |server: &Server, n: &usize| server.nth(*n).unwrap_or_default();
    match what {
        Ready(n) => server.make_ready(&pod(server, n)),
        AllReady => (0..server.pods.len()).for_each(|n| server.make_ready(&pod(server, &n))),
        Unready(n) => server.unready(&pod(server, n)),
        Restarts(n) => server.restart_container(&pod(server, n)),
        Unschedulable(n) => server.unschedulable(&pod(server, n)),
        Fail(n) => server.fail(&pod(server, n), "Failed"),
        Succeed(n) => server.fail(&pod(server, n), "Succeeded"),
        Delete(n) => server.begin_deletion(&pod(server, n)),
        Vanish(n) => server.vanish(&pod(server, n)),
        Hang(n) => server.hang(&pod(server, n)),
        LostNodesRemoved => _ = server.remove_lost_nodes(),
        Evicted => server.evict_hung(),
        Reap => _ = server.reap(),
        Collect => server.collect(),
        JobsEnd(succeeded) => _ = server.finish_jobs(*succeeded),
        ClusterDeleted(foreground) => server.delete_cluster(*foreground),
        Refuse(kind, deletes, how) => _ = server.refusals.insert((*kind, *deletes), *how),
        Relent => server.refusals.clear(),
        Stranger(head) => {
            let (name, kind) = if *head { ("stranger-head", "head") } else { ("stranger", "worker") };
            server.stranger(name, kind, if *head { "headgroup" } else { "small" });
        }
        ChildDeleted(n) => {
            if let Some(key) = server.others.keys().nth(*n).cloned() {
                server.remove(&key);
            }
        }
        ChildChanged(n) => server.change_child(*n),
        Victims(group, n) => choose_victims(server, *group, *n),
        edit => server.edit(|cluster| of_the_spec(cluster, edit)),
    }
}

fn of_the_spec(cluster: &mut RayCluster, what: &Happening) {
    use Happening::*;
    let spec = &mut cluster.spec;
    let groups = spec.worker_group_specs.get_or_insert_default();
    let len = groups.len();
    let nth = |groups: &mut Vec<WorkerGroupSpec>, n: &usize, change: &dyn Fn(&mut WorkerGroupSpec)| {
        groups.get_mut(*n).into_iter().for_each(change);
    };
    match what {
        Replicas(g, n) => nth(groups, g, &|g| g.replicas = Some(*n)),
        Bounds(g, min, more) => nth(groups, g, &|g| {
            (g.min_replicas, g.max_replicas) = (Some(*min), Some(min + more));
        }),
        Hosts(g, n) => nth(groups, g, &|g| g.num_of_hosts = Some(*n)),
        Suspend(yes) => spec.suspend = yes.then_some(true),
        SuspendGroup(g, yes) => nth(groups, g, &|g| g.suspend = yes.then_some(true)),
        AddGroup(hosts) if len < 4 => {
            let mut group = groups.first().cloned().unwrap_or_default();
            group.group_name = ["fresh", "other", "third", "fourth"][len].to_owned();
            (group.num_of_hosts, group.replicas) = (Some(*hosts), Some(1));
            group.template = spec.head_group_spec.template.clone();
            groups.push(group);
        }
        DropGroup(g) if *g < len => _ = groups.remove(*g),
        RenameGroup(g) => nth(groups, g, &|g| g.group_name = format!("{}x", g.group_name)),
        Image(g, n) => {
            let templates =
                std::iter::once(&mut spec.head_group_spec.template).chain(groups.iter_mut().map(|g| &mut g.template));
            let containers = templates.skip(*g).take(1).filter_map(|t| t.spec.as_mut()?.containers.first_mut());
            containers.for_each(|c| c.image = Some(format!("rayproject/ray:2.52.{n}")));
        }
        Annotate(n) => {
            spec.head_service_annotations = Some([("model/note".to_owned(), n.to_string())].into());
        }
        Upgrade(recreate) => {
            let strategy = if *recreate { "Recreate" } else { "None" };
            spec.upgrade_strategy = Some(serde_json::from_value(json!({ "type": strategy })).expect("a strategy"));
        }
        Autoscaling(yes) => spec.enable_in_tree_autoscaling = yes.then_some(true),
        ListCleared(g) => nth(groups, g, &|g| g.scale_strategy = None),
        Broken(0) => nth(groups, &0, &|g| (g.min_replicas, g.max_replicas) = (Some(3), Some(1))),
        Broken(1) => nth(groups, &0, &|g| g.num_of_hosts = Some(0)),
        Broken(2) if len > 1 => groups[1].group_name = groups[0].group_name.clone(),
        Broken(_) => spec.upgrade_strategy = serde_json::from_value(json!({"type": "Sideways"})).ok(),
        Mended => mend(cluster),
        Feature(n, on) => feature(cluster, *n, *on),
        _ => {}
    }
}

/// Takes out all that makes a spec invalid.
pub fn mend(cluster: &mut RayCluster) {
    let spec = &mut cluster.spec;
    spec.upgrade_strategy.take_if(|u| u.type_.as_deref() == Some("Sideways"));
    let autoscaled = spec.enable_in_tree_autoscaling == Some(true);
    let mut names = std::collections::BTreeSet::new();
    for group in spec.worker_group_specs.iter_mut().flatten() {
        let min = group.min_replicas.unwrap_or(0);
        group.max_replicas = group.max_replicas.map(|max| max.max(min));
        group.num_of_hosts = group.num_of_hosts.map(|n| n.max(1));
        group.suspend.take_if(|_| autoscaled);
        while !names.insert(group.group_name.clone()) {
            group.group_name.push('y');
        }
    }
}

/// What comes with children of its own.
fn feature(cluster: &mut RayCluster, n: u8, on: bool) {
    let changes: [(&str, Value); 5] = [
        ("authOptions", json!({"mode": "token"})),
        ("networkPolicy", json!({"mode": "DenyAllIngress"})),
        ("headGroupSpec", json!({"enableIngress": true})),
        ("headGroupSpec", json!({"serviceType": "NodePort"})),
        ("gcsFaultToleranceOptions", json!({"redisAddress": "redis:6379"})),
    ];
    let (field, on_value) = &changes[usize::from(n)];
    let off = match field {
        &"headGroupSpec" => json!({"enableIngress": null, "serviceType": null}),
        _ => Value::Null,
    };
    let mut spec = json!(cluster.spec);
    crate::server::merge(&mut spec, &json!({ *field: if on { on_value.clone() } else { off } }));
    cluster.spec = serde_json::from_value(spec).expect("a spec");
}

/// Ray's autoscaler chooses who goes, and lowers `replicas` by as many replicas.
fn choose_victims(server: &mut Server, group: usize, n: usize) {
    let Some(cluster) = &server.cluster else { return };
    let Some(spec) = cluster.spec.groups().get(group).filter(|_| cluster.spec.enable_in_tree_autoscaling == Some(true))
    else {
        return;
    };
    let mine = server.pods.values().filter(|p| p.meta.owner_uid == server.uid() && p.meta.deleting.is_none());
    let mine = mine.filter(|p| p.label(ray_operator::api::names::labels::GROUP) == spec.group_name && !is_dead(p));
    let victims: Vec<String> = mine.take(n).map(|p| p.meta.name.clone()).collect();
    let replicas = (spec.wanted_replicas() - victims.len() as i32).max(0);
    server.edit(|c| {
        if let Some(g) = c.spec.worker_group_specs.iter_mut().flatten().nth(group) {
            g.replicas = Some(replicas);
            g.scale_strategy = Some(ScaleStrategy { workers_to_delete: Some(victims) });
        }
    });
}

impl Server {
    /// Somebody writes to the body of a child.
    fn change_child(&mut self, n: usize) {
        let Some(key) = self.others.keys().filter(|(kind, _)| *kind != Kind::Service).nth(n).cloned() else { return };
        let version = self.next_version();
        let value = self.others.get_mut(&key).expect("the child");
        let fields = value.as_object_mut().into_iter().flatten();
        for (_, body) in fields.filter(|(k, _)| !matches!(k.as_str(), "metadata" | "kind" | "apiVersion" | "status")) {
            scribble(body);
        }
        value["metadata"]["resourceVersion"] = json!(version);
        if let Some(entries) = value["metadata"]["managedFields"].as_array_mut() {
            entries.push(json!({"manager": "a-person", "fieldsV1": {"f:spec": {}}}));
        }
        let value = value.clone();
        self.tell(Stored::Other(key.0, value), false);
    }
}

/// Changes the first text in it.
fn scribble(value: &mut Value) -> bool {
    match value {
        Value::String(text) => {
            text.push('x');
            true
        }
        Value::Array(items) => items.iter_mut().any(scribble),
        Value::Object(fields) => fields.values_mut().any(scribble),
        _ => false,
    }
}
