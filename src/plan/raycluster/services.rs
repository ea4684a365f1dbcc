//! Services: the head's, the one for people outside, and those that lead to workers.

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use super::children::drop_unwished;
use super::{Part, Scene};
use crate::api::children::Kind;
use crate::api::names::{annotations, head_external_service_name, headless_service_name, labels, serve_service_name};
use crate::observe::seen::ServiceView;
use crate::plan::config::PlanConfig;
use crate::plan::{Action, Manifest, Object, Stage, Step, Target, build};

pub(super) fn plan(scene: &Scene<'_>) -> Part {
    let mut part = Part::default();
    let head = scene.head_service();
    let head_name = name_of(&head);
    let external = build::head_external_service(scene.cluster, scene.config)
        .filter(|wanted| !scene.serves_people_already(&head_name, wanted));
    let headless = build::headless_service(scene.cluster);
    let serve = build::serve_service(scene.cluster);

    let name = scene.name();
    let needed = scene.workers().any(|pod| !pod.label(labels::HOST_INDEX).is_empty());
    let unasked = [
        (external.is_none(), head_external_service_name(name), "serviceType no longer asks for it"),
        (headless.is_none() && !needed, headless_service_name(name), "no worker group has several hosts"),
        (serve.is_none(), serve_service_name(name), "the annotation that asks for it was taken out"),
    ];
    for (_, name, why) in unasked.into_iter().filter(|(unasked, ..)| *unasked) {
        part.steps.extend(scene.seen.services.get(&name).and_then(|there| removal(there, why.to_owned())));
    }
    part.steps.extend(scene.former_head_services(&head_name));

    part.steps.extend(scene.bring_about(head, Stage::Services));
    for service in [external, headless, serve].into_iter().flatten() {
        part.steps.extend(scene.bring_about(service, Stage::Others));
    }
    part
}

fn name_of(service: &Service) -> String {
    service.metadata.name.clone().unwrap_or_default()
}

impl Scene<'_> {
    /// The head Service that is wished. One that is there with an address keeps it, and lists the ports of that form.
    fn head_service(&self) -> Service {
        let wanted = build::head_service(self.cluster, self.config);
        let has_address = self.seen.services.get(&name_of(&wanted)).is_some_and(|there| there.cluster_ip.is_some());
        if !has_address || self.config.head_cluster_ip_service {
            return wanted;
        }
        let config = PlanConfig { head_cluster_ip_service: true, ..self.config.clone() };
        build::head_service(self.cluster, &config)
    }

    /// The step that brings a Service to what is wished, if any. `stage` is that of its creation.
    fn bring_about(&self, service: Service, stage: Stage) -> Option<Step> {
        let name = name_of(&service);
        let Some(there) = self.seen.services.get(&name) else {
            return Some(Step {
                stage,
                reason: "CreatedService",
                why: format!("Service {name} was missing"),
                scope: name,
                // A new cluster's first event tells of the head and its Service in one.
                tell: self.heads().next().is_some(),
                action: Action::Create(Object::Service(Box::new(service))),
            });
        };
        if there.meta.deleting.is_some() {
            return None;
        }
        let (patch, why, tell) = match there.meta.annotations.get(annotations::APPLIED_HASH) {
            None => (stamp(service, there), "KubeRay made it, and it is marked to follow the spec from now on", false),
            Some(made_as) if differs(there, made_as, &service) => {
                (patchable(service, there), "what the RayCluster or the operator's settings say about it changed", true)
            }
            Some(_) => return None,
        };
        let (reason, why) = ("UpdatedService", why.to_owned());
        Some(Step { stage: Stage::Others, reason, scope: name, why, tell, action: Action::Patch(patch) })
    }

    /// A head Service that KubeRay made for people outside keeps its type, so they need no second one.
    fn serves_people_already(&self, head_service: &str, external: &Service) -> bool {
        let type_ = external.spec.as_ref().and_then(|s| s.type_.as_deref());
        self.seen.services.get(head_service).is_some_and(|there| Some(there.type_.as_str()) == type_)
    }

    /// Removes head Services of earlier names, once the present one is there. Workers hold the address that they were
    /// started with for life, so a Service stays for as long as one of them may use it.
    fn former_head_services(&self, present: &str) -> Vec<Step> {
        if self.seen.services.get(present).is_none_or(|there| there.meta.deleting.is_some()) {
            return Vec::new();
        }
        let is_head = |s: &&ServiceView| s.meta.label(labels::NODE_TYPE) == "head" && s.meta.name != present;
        let used = |s: &&ServiceView| {
            self.workers().any(|pod| pod.head_service.as_deref().is_none_or(|name| name == s.meta.name))
        };
        let former = self.seen.services.values().map(|s| &**s).filter(is_head).filter(|s| !used(s));
        former
            .filter_map(|there| removal(there, format!("the head Service is {present}, and no worker uses this one")))
            .collect()
    }
}

fn removal(there: &ServiceView, why: String) -> Option<Step> {
    there.meta.deleting.is_none().then(|| Step {
        stage: Stage::Others,
        reason: "DeletedService",
        why,
        scope: there.meta.name.clone(),
        tell: true,
        action: Action::Delete(Target::of(Kind::Service, &there.meta)),
    })
}

/// Whether what we would make today differs from what we made. One that would get an address, or lose it, is left as it
/// is: the API server does not allow it, and the ports would be those of the other form.
fn differs(there: &ServiceView, made_as: &str, wanted: &Service) -> bool {
    let headless = wanted.spec.as_ref().and_then(|s| s.cluster_ip.as_deref()) == Some("None");
    headless == there.cluster_ip.is_none() && hash_of(wanted) != Some(made_as)
}

fn hash_of(service: &Service) -> Option<&str> {
    service.metadata.annotations.as_ref()?.get(annotations::APPLIED_HASH).map(String::as_str)
}

/// Marks a Service with the wish as it is now and changes nothing that traffic depends on; its label lets us watch it.
fn stamp(mut service: Service, there: &ServiceView) -> Manifest {
    let meta = std::mem::take(&mut service.metadata);
    let keep = |map: Option<std::collections::BTreeMap<String, String>>, key: &str| {
        map.map(|map| map.into_iter().filter(|(k, _)| k == key).collect())
    };
    let meta = ObjectMeta {
        name: meta.name,
        namespace: meta.namespace,
        uid: Some(there.meta.uid.clone()),
        labels: keep(meta.labels, labels::CLUSTER),
        annotations: keep(meta.annotations, annotations::APPLIED_HASH),
        ..ObjectMeta::default()
    };
    Manifest::new(Kind::Service, meta, json!({}))
}

/// For exactly the Service that is there, and without its address, which never changes. What we wrote of labels and
/// annotations and wish no more is taken out. A head Service that is open to people outside is not narrowed: it was made
/// by KubeRay, and they use it.
fn patchable(mut service: Service, there: &ServiceView) -> Manifest {
    service.metadata.uid = Some(there.meta.uid.clone());
    let for_people = matches!(there.type_.as_str(), "NodePort" | "LoadBalancer");
    if let Some(spec) = &mut service.spec {
        spec.cluster_ip = None;
        if for_people && there.meta.label(labels::NODE_TYPE) == "head" && spec.type_.as_deref() == Some("ClusterIP") {
            spec.type_ = None;
        }
    }
    let meta = std::mem::take(&mut service.metadata);
    let mut patch = Manifest::new(Kind::Service, meta, service);
    if let Some(meta) = patch.value.get_mut("metadata").and_then(Value::as_object_mut) {
        drop_unwished(meta, &there.written);
    }
    patch
}
