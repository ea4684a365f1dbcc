//! The head Service, and the one for people outside when it is asked for.

use k8s_openapi::api::core::v1::Service;

use super::{Part, Scene};
use crate::api::children::Kind;
use crate::api::names::{annotations, head_external_service_name};
use crate::observe::seen::ServiceView;
use crate::plan::{Action, Manifest, Object, Stage, Step, Target, build};

pub(super) fn plan(scene: &Scene<'_>) -> Part {
    let mut part = Part::default();
    let external = build::head_external_service(scene.cluster, scene.config);
    let unwanted = if external.is_none() { head_external_service_name(scene.name()) } else { String::new() };
    let internal = build::head_service(scene.cluster, scene.config);
    for (service, stage) in std::iter::once((internal, Stage::Services)).chain(external.map(|s| (s, Stage::Others))) {
        let name = service.metadata.name.clone().unwrap_or_default();
        match scene.seen.services.get(&name) {
            None => part.steps.push(Step {
                stage,
                reason: "CreatedService",
                why: format!("Service {name} was missing"),
                scope: name,
                // A new cluster's first event tells of the head and its Service in one.
                tell: scene.heads().next().is_some(),
                action: Action::Create(Object::Service(Box::new(service))),
            }),
            Some(there) if there.meta.deleting.is_none() && differs(there, &service) => part.steps.push(Step {
                stage: Stage::Others,
                reason: "UpdatedService",
                why: "what the RayCluster or the operator's settings say about it changed".to_owned(),
                scope: name,
                tell: true,
                action: Action::Patch(patchable(service, there)),
            }),
            Some(_) => {}
        }
    }
    if let Some(there) = scene.seen.services.get(&unwanted).filter(|s| s.meta.deleting.is_none()) {
        part.steps.push(Step {
            stage: Stage::Others,
            reason: "DeletedService",
            why: "serviceType no longer asks for it".to_owned(),
            scope: unwanted,
            tell: true,
            action: Action::Delete(Target::of(Kind::Service, &there.meta)),
        });
    }
    part
}

/// Whether what we would make today differs from what we made. A Service that KubeRay made bears no hash of ours and is
/// left as it is: its cluster runs on it. So is one that would change between headless and not, which the API server
/// does not allow, and whose ports would be those of the other form.
fn differs(there: &ServiceView, wanted: &Service) -> bool {
    let hash = wanted.metadata.annotations.as_ref().and_then(|a| a.get(annotations::APPLIED_HASH));
    let headless = wanted.spec.as_ref().and_then(|s| s.cluster_ip.as_deref()) == Some("None");
    headless == there.cluster_ip.is_none()
        && there.meta.annotations.get(annotations::APPLIED_HASH).is_some_and(|made_as| Some(made_as) != hash)
}

/// For exactly the Service that is there, and without its address, which never changes.
fn patchable(mut service: Service, there: &ServiceView) -> Manifest {
    service.metadata.uid = Some(there.meta.uid.clone());
    if let Some(spec) = &mut service.spec {
        spec.cluster_ip = None;
    }
    let meta = std::mem::take(&mut service.metadata);
    Manifest::new(Kind::Service, meta, service)
}
