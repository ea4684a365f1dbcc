//! Planted defects. Each is the real planner with one mistake; a property has to notice it.

use std::sync::Arc;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use ray_operator::api::names::labels;
use ray_operator::api::{RayCluster, RayClusterStatus, validation};
use ray_operator::observe::seen::{PodView, Seen};
use ray_operator::plan::config::PlanConfig;
use ray_operator::plan::raycluster::plan;
use ray_operator::plan::{Action, Object, Plan, Stage, Step, Target};

use crate::checks::property::*;
use crate::checks::{autoscales, is_head, is_true, is_worker};
use crate::world::Planner;
use crate::{Beginning, search};

type Decided = Plan<RayClusterStatus>;

/// Histories that are tried before a defect counts as not found.
const TRIES: u32 = 1_500;

/// The defect breaks one of these properties.
fn is_found(beginning: Beginning, planner: Planner, by: &[&str]) {
    is_noticed(beginning, planner, false, by);
}

fn is_noticed(beginning: Beginning, planner: Planner, deaf: bool, by: &[&str]) {
    let (broken, story) = search(beginning, TRIES, planner, deaf, false).expect("the planted defect is found");
    assert!(by.contains(&broken.property), "found by {:?}, not by {by:?}: {}\n{story}", broken.property, broken.detail);
}

fn delete(pod: &PodView, why: &str) -> Step {
    Step {
        stage: Stage::Delete,
        reason: if is_head(pod) { "DeletedHeadPod" } else { "DeletedWorkerPod" },
        scope: pod.label(labels::GROUP).to_owned(),
        why: why.to_owned(),
        tell: true,
        action: Action::Delete(Target::of(ray_operator::api::children::Kind::Pod, &pod.meta)),
    }
}

fn deletes(step: &Step) -> bool {
    matches!(step.action, Action::Delete(_))
}

/// The pods as they would be seen with a mistake in the view.
fn misread(seen: &Seen, change: impl Fn(&mut PodView)) -> Seen {
    let mut seen = seen.clone();
    for pod in seen.pods.values_mut() {
        change(Arc::make_mut(pod));
    }
    seen
}

/// The cluster as it would be read with a mistake.
fn misunderstood(cluster: &RayCluster, change: impl FnOnce(&mut RayCluster)) -> RayCluster {
    let mut cluster = cluster.clone();
    change(&mut cluster);
    cluster
}

#[test]
fn deletes_by_name_alone() {
    fn planner(cluster: &RayCluster, seen: &Seen, now: Timestamp, config: &PlanConfig) -> Decided {
        let mut plan = plan(cluster, seen, now, config);
        for step in &mut plan.steps {
            if let Action::Delete(target) = &mut step.action {
                target.uid.clear();
            }
        }
        plan
    }
    is_found(Beginning::Fresh, planner, &[UID]);
}

#[test]
fn replaces_a_worker_that_lives() {
    fn planner(cluster: &RayCluster, seen: &Seen, now: Timestamp, config: &PlanConfig) -> Decided {
        let mut plan = plan(cluster, seen, now, config);
        let unready = |p: &&Arc<PodView>| is_worker(p) && p.ready.as_ref().is_some_and(|c| c.status == "False");
        let victim = seen.pods.values().filter(|p| p.meta.deleting.is_none()).find(unready);
        let free = cluster.metadata.deletion_timestamp.is_none() && validation::raycluster(cluster).is_empty();
        if plan.steps.is_empty() && free {
            plan.steps.extend(victim.map(|p| delete(p, "it was dead (not Ready); a new pod takes its place")));
        }
        plan
    }
    is_found(Beginning::Fresh, planner, &[CAUSE, WHOLE, VICTIMS]);
}

#[test]
fn counts_pods_that_leave_as_if_they_stayed() {
    fn planner(cluster: &RayCluster, seen: &Seen, now: Timestamp, config: &PlanConfig) -> Decided {
        let mut plan = plan(cluster, &misread(seen, |p| p.meta.deleting = None), now, config);
        let leaving = |name: &str| seen.pods.get(name).is_some_and(|p| p.meta.deleting.is_some());
        plan.steps.retain(|s| !(deletes(s) && leaving(s.action.name())));
        plan
    }
    is_found(Beginning::Fresh, planner, &[TOLD, WANTED, SETTLES, SUSPENSION]);
}

#[test]
fn forgets_its_own_writes() {
    is_noticed(Beginning::Fresh, plan, true, &[REPEATED, ABOVE_MAX, TWO_HEADS]);
}

#[test]
fn deletes_one_more_than_named() {
    fn planner(cluster: &RayCluster, seen: &Seen, now: Timestamp, config: &PlanConfig) -> Decided {
        let mut plan = plan(cluster, seen, now, config);
        let named = plan.steps.iter().find(|s| s.why.contains("workersToDelete")).cloned();
        if let Some(step) = named {
            let taken = |name: &str| plan.steps.iter().any(|s| s.action.name() == name);
            let of_group = |p: &&Arc<PodView>| is_worker(p) && p.label(labels::GROUP) == step.scope;
            let free = seen.pods.values().filter(of_group).find(|p| p.meta.deleting.is_none() && !taken(&p.meta.name));
            plan.steps.extend(free.map(|p| delete(p, &step.why)));
        }
        plan
    }
    is_found(Beginning::Autoscaled, planner, &[VICTIMS, CAUSE, WHOLE]);
}

#[test]
fn chooses_who_goes_although_the_autoscaler_is_on() {
    fn planner(cluster: &RayCluster, seen: &Seen, now: Timestamp, config: &PlanConfig) -> Decided {
        let valid = validation::raycluster(cluster).is_empty();
        let turned_off = |c: &mut RayCluster| c.spec.enable_in_tree_autoscaling.take_if(|_| valid);
        plan(&misunderstood(cluster, |c| _ = turned_off(c)), seen, now, config)
    }
    is_found(Beginning::Autoscaled, planner, &[VICTIMS]);
}

#[test]
fn forgets_that_a_group_failed() {
    fn planner(cluster: &RayCluster, seen: &Seen, now: Timestamp, config: &PlanConfig) -> Decided {
        let seen =
            Seen { failures: seen.failures.iter().filter(|f| f.scope != "small").cloned().collect(), ..seen.clone() };
        plan(cluster, &seen, now, config)
    }
    is_found(Beginning::Fresh, planner, &[TOLD]);
}

#[test]
fn never_resumes() {
    fn planner(cluster: &RayCluster, seen: &Seen, now: Timestamp, config: &PlanConfig) -> Decided {
        let stuck = is_true(cluster, "RayClusterSuspended");
        plan(&misunderstood(cluster, |c| c.spec.suspend = c.spec.suspend.or(stuck.then_some(true))), seen, now, config)
    }
    is_found(Beginning::Fresh, planner, &[WANTED]);
}

#[test]
fn breaks_off_a_suspension() {
    fn planner(cluster: &RayCluster, seen: &Seen, now: Timestamp, config: &PlanConfig) -> Decided {
        let changed = cluster.spec.suspend.is_none();
        let cluster = misunderstood(cluster, |c| {
            let conditions = c.status.iter_mut().flat_map(|s| s.conditions.iter_mut().flatten());
            for condition in conditions.filter(|c| changed && c.type_ == "RayClusterSuspending") {
                condition.status = "False".to_owned();
            }
        });
        plan(&cluster, seen, now, config)
    }
    is_found(Beginning::Fresh, planner, &[SUSPENSION, IDLE]);
}

#[test]
fn deletes_heads_of_others() {
    fn planner(cluster: &RayCluster, seen: &Seen, now: Timestamp, config: &PlanConfig) -> Decided {
        let mut plan = plan(cluster, seen, now, config);
        let others = seen.other_heads.iter().filter(|p| p.meta.deleting.is_none());
        plan.steps.extend(others.map(|p| delete(p, "a cluster has one head")));
        plan
    }
    is_found(Beginning::Fresh, planner, &[FOREIGN]);
}

#[test]
fn makes_a_head_while_the_old_one_leaves() {
    fn planner(cluster: &RayCluster, seen: &Seen, now: Timestamp, config: &PlanConfig) -> Decided {
        let mut fewer = seen.clone();
        fewer.pods.retain(|_, p| !(is_head(p) && p.meta.deleting.is_some()));
        // Its name is taken, so the next one would have been found.
        let mut plan = plan(cluster, &fewer, now, config);
        for step in &mut plan.steps {
            if let Action::Create(Object::Pod(pod)) = &mut step.action
                && seen.pods.contains_key(pod.metadata.name.as_deref().unwrap_or_default())
            {
                pod.metadata.name = Some("model-head-again".to_owned());
            }
        }
        plan
    }
    is_found(Beginning::Fresh, planner, &[TWO_HEADS]);
}

#[test]
fn ignores_heads_of_an_earlier_cluster() {
    fn planner(cluster: &RayCluster, seen: &Seen, now: Timestamp, config: &PlanConfig) -> Decided {
        plan(cluster, &Seen { other_heads: Vec::new(), ..seen.clone() }, now, config)
    }
    is_found(Beginning::Fresh, planner, &[TWO_HEADS]);
}

#[test]
fn leaves_the_partners_of_a_failed_host() {
    fn planner(cluster: &RayCluster, seen: &Seen, now: Timestamp, config: &PlanConfig) -> Decided {
        let mut plan = plan(cluster, seen, now, config);
        plan.steps.retain(|s| !s.why.contains("together"));
        plan
    }
    is_found(Beginning::Fresh, planner, &[WHOLE]);
}

#[test]
fn writes_its_status_every_time() {
    fn planner(cluster: &RayCluster, seen: &Seen, now: Timestamp, config: &PlanConfig) -> Decided {
        let mut plan = plan(cluster, seen, now, config);
        if let Some(status) = &cluster.status {
            let mut again = status.clone();
            again.last_update_time = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now));
            plan.status.get_or_insert(again);
        }
        plan
    }
    is_found(Beginning::Fresh, planner, &[DIFFERENCE]);
}

#[test]
fn leaves_removed_groups() {
    fn planner(cluster: &RayCluster, seen: &Seen, now: Timestamp, config: &PlanConfig) -> Decided {
        let mut plan = plan(cluster, seen, now, config);
        plan.steps.retain(|s| !s.why.contains("no longer in the spec"));
        plan
    }
    is_found(Beginning::Fresh, planner, &[WANTED]);
}

#[test]
fn passes_the_maximum() {
    fn planner(cluster: &RayCluster, seen: &Seen, now: Timestamp, config: &PlanConfig) -> Decided {
        let original = cluster.clone();
        let cluster = misunderstood(cluster, |c| {
            c.spec.worker_group_specs.iter_mut().flatten().for_each(|g| g.max_replicas = None);
        });
        if !validation::raycluster(&original).is_empty() {
            return plan(&original, seen, now, config);
        }
        plan(&cluster, seen, now, config)
    }
    is_found(Beginning::Fresh, planner, &[ABOVE_MAX, TOLD]);
}

#[test]
fn makes_a_lost_pod_again_under_another_name() {
    fn planner(cluster: &RayCluster, seen: &Seen, now: Timestamp, config: &PlanConfig) -> Decided {
        let mut plan = plan(cluster, &Seen { attempted: Default::default(), ..seen.clone() }, now, config);
        for step in &mut plan.steps {
            if let Action::Create(Object::Pod(pod)) = &mut step.action
                && let Some((_, _)) = seen.attempted.iter().find(|(place, _)| place.group == step.scope)
            {
                let name = pod.metadata.name.get_or_insert_default();
                name.push_str("-again");
            }
        }
        plan
    }
    is_found(Beginning::Fresh, planner, &[TWO_HEADS, ABOVE_MAX]);
}

#[test]
fn asks_for_no_alarm() {
    fn planner(cluster: &RayCluster, seen: &Seen, now: Timestamp, config: &PlanConfig) -> Decided {
        Plan { look_again: None, ..plan(cluster, seen, now, config) }
    }
    is_found(Beginning::Fresh, planner, &[TOLD, WANTED]);
}

#[test]
fn sets_its_alarm_again_and_again() {
    fn planner(cluster: &RayCluster, seen: &Seen, now: Timestamp, config: &PlanConfig) -> Decided {
        Plan { look_again: Some(now + SignedDuration::from_mins(5)), ..plan(cluster, seen, now, config) }
    }
    is_found(Beginning::Fresh, planner, &[SETTLES]);
}

#[test]
fn tells_of_an_earlier_spec() {
    fn planner(cluster: &RayCluster, seen: &Seen, now: Timestamp, config: &PlanConfig) -> Decided {
        let mut plan = plan(cluster, seen, now, config);
        let before = cluster.status.as_ref().and_then(|s| s.observed_generation);
        plan.status.iter_mut().for_each(|s| s.observed_generation = before);
        plan
    }
    is_found(Beginning::Fresh, planner, &[TOLD]);
}

#[test]
fn stays_ready_once_it_was() {
    fn planner(cluster: &RayCluster, seen: &Seen, now: Timestamp, config: &PlanConfig) -> Decided {
        let mut plan = plan(cluster, seen, now, config);
        if is_true(cluster, "Ready") {
            let conditions = plan.status.iter_mut().flat_map(|s| s.conditions.iter_mut().flatten());
            conditions.filter(|c| c.type_ == "Ready").for_each(|c| c.status = "True".to_owned());
        }
        plan
    }
    is_found(Beginning::Fresh, planner, &[TOLD]);
}

#[test]
fn deletes_without_a_word() {
    fn planner(cluster: &RayCluster, seen: &Seen, now: Timestamp, config: &PlanConfig) -> Decided {
        let mut plan = plan(cluster, seen, now, config);
        plan.steps.iter_mut().filter(|s| deletes(s)).for_each(|s| s.why.clear());
        plan
    }
    is_found(Beginning::Fresh, planner, &[CAUSE]);
}

#[test]
fn gives_a_wrong_reason() {
    fn planner(cluster: &RayCluster, seen: &Seen, now: Timestamp, config: &PlanConfig) -> Decided {
        let mut plan = plan(cluster, seen, now, config);
        let dead = plan.steps.iter_mut().filter(|s| deletes(s) && s.why.starts_with("it was dead"));
        dead.for_each(|s| s.why = "group small is no longer in the spec".to_owned());
        plan
    }
    is_found(Beginning::Fresh, planner, &[CAUSE]);
}

#[test]
fn acts_on_an_invalid_spec() {
    fn planner(cluster: &RayCluster, seen: &Seen, now: Timestamp, config: &PlanConfig) -> Decided {
        plan(&misunderstood(cluster, crate::happenings::mend), seen, now, config)
    }
    is_found(Beginning::Fresh, planner, &[TOLD, IDLE]);
}

#[test]
fn keeps_outdated_pods_under_recreate() {
    fn planner(cluster: &RayCluster, seen: &Seen, now: Timestamp, config: &PlanConfig) -> Decided {
        plan(
            &misunderstood(cluster, |c| {
                _ = c.spec.upgrade_strategy.take_if(|u| u.type_.as_deref() == Some("Recreate"))
            }),
            seen,
            now,
            config,
        )
    }
    is_found(Beginning::Recreated, planner, &[WANTED]);
}

#[test]
fn never_updates_a_service() {
    fn planner(cluster: &RayCluster, seen: &Seen, now: Timestamp, config: &PlanConfig) -> Decided {
        let mut plan = plan(cluster, seen, now, config);
        plan.steps.retain(|s| s.reason != "UpdatedService");
        plan
    }
    is_found(Beginning::Fresh, planner, &[WANTED]);
}

#[test]
fn acts_while_the_cluster_is_being_deleted() {
    fn planner(cluster: &RayCluster, seen: &Seen, now: Timestamp, config: &PlanConfig) -> Decided {
        plan(&misunderstood(cluster, |c| c.metadata.deletion_timestamp = None), seen, now, config)
    }
    is_found(Beginning::Fresh, planner, &[IDLE]);
}

#[test]
fn removes_healthy_replicas_beyond_what_is_too_much() {
    fn planner(cluster: &RayCluster, seen: &Seen, now: Timestamp, config: &PlanConfig) -> Decided {
        let fewer = |c: &mut RayCluster| {
            for group in c.spec.worker_group_specs.iter_mut().flatten() {
                let there = seen.pods.values().filter(|p| p.label(labels::GROUP) == group.group_name).count();
                let wanted = group.wanted_replicas();
                group.replicas = Some(if there as i32 > wanted { wanted - 1 } else { wanted }.max(0));
            }
        };
        let mut plan = plan(&misunderstood(cluster, fewer), seen, now, config);
        plan.status = None;
        plan
    }
    is_found(Beginning::Fresh, planner, &[CAUSE, TOLD]);
    assert!(!autoscales(&crate::cluster(Beginning::Fresh)), "or nothing would be removed at all");
}
