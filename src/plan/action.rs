//! What a step does to the API server.

use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use serde_json::{Value, json};

use crate::api::children::Kind;
use crate::api::names::annotations;
use crate::observe::seen::{Meta, Place};

#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    Create(Object),
    /// Brings an object to this state by a merge patch (RFC 7386): what others wrote beside it stays, and lists are
    /// replaced as a whole. With `metadata.uid` it is that object and no other.
    Patch(Manifest),
    /// Deletes that object and no other: the uid is a precondition.
    Delete(Target),
}

/// An object to be created.
#[derive(Clone, Debug, PartialEq)]
pub enum Object {
    Pod(Box<Pod>),
    Service(Box<Service>),
    Other(Manifest),
    /// A Secret that gets a fresh random token under this key: a planner knows no chance.
    Token(Manifest, &'static str),
}

/// An object of any kind, or the part of it that a patch is about.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    pub kind: Kind,
    pub namespace: String,
    pub name: String,
    /// The whole JSON, with `apiVersion` and `kind`.
    pub value: Value,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub kind: Kind,
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

impl Target {
    pub fn of(kind: Kind, meta: &Meta) -> Target {
        Target { kind, namespace: meta.namespace.clone(), name: meta.name.clone(), uid: meta.uid.clone() }
    }
}

impl Manifest {
    /// `meta` names it; `body` is everything beside `metadata`.
    pub fn new(kind: Kind, meta: ObjectMeta, body: impl Serialize) -> Manifest {
        let (namespace, name) = (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default());
        let mut value = json!(body);
        if let Value::Object(fields) = &mut value {
            fields.insert("apiVersion".to_owned(), kind.api_version().into());
            fields.insert("kind".to_owned(), kind.kind().into());
            fields.insert("metadata".to_owned(), json!(meta));
        }
        Manifest { kind, namespace, name, value }
    }
}

impl Object {
    pub fn kind(&self) -> Kind {
        match self {
            Object::Pod(_) => Kind::Pod,
            Object::Service(_) => Kind::Service,
            Object::Other(manifest) | Object::Token(manifest, _) => manifest.kind,
        }
    }

    pub fn name(&self) -> &str {
        match self {
            Object::Pod(pod) => pod.metadata.name.as_deref().unwrap_or_default(),
            Object::Service(service) => service.metadata.name.as_deref().unwrap_or_default(),
            Object::Other(manifest) | Object::Token(manifest, _) => &manifest.name,
        }
    }

    pub fn namespace(&self) -> &str {
        match self {
            Object::Pod(pod) => pod.metadata.namespace.as_deref().unwrap_or_default(),
            Object::Service(service) => service.metadata.namespace.as_deref().unwrap_or_default(),
            Object::Other(manifest) | Object::Token(manifest, _) => &manifest.namespace,
        }
    }
}

impl Action {
    pub fn kind(&self) -> Kind {
        match self {
            Action::Create(object) => object.kind(),
            Action::Patch(manifest) => manifest.kind,
            Action::Delete(target) => target.kind,
        }
    }

    pub fn name(&self) -> &str {
        match self {
            Action::Create(object) => object.name(),
            Action::Patch(manifest) => &manifest.name,
            Action::Delete(target) => &target.name,
        }
    }

    pub fn namespace(&self) -> &str {
        match self {
            Action::Create(object) => object.namespace(),
            Action::Patch(manifest) => &manifest.namespace,
            Action::Delete(target) => &target.namespace,
        }
    }

    /// As the API server calls it.
    pub fn verb(&self) -> &'static str {
        match self {
            Action::Create(_) => "create",
            Action::Patch(_) => "patch",
            Action::Delete(_) => "delete",
        }
    }

    /// The place that a pod is created for, and its incarnation there.
    pub fn place(&self) -> Option<(Place, u32)> {
        let Action::Create(Object::Pod(pod)) = self else { return None };
        let place = Place::from_labels(pod.metadata.labels.as_ref()?)?;
        let incarnation = pod.metadata.annotations.as_ref().and_then(|a| a.get(annotations::INCARNATION));
        Some((place, incarnation.and_then(|i| i.parse().ok()).unwrap_or(0)))
    }
}
