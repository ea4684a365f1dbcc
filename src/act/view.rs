//! Answers to writes, as the views that the index holds.

use serde::Deserialize;
use serde_json::Value;

use super::refusal::Refusal;
use crate::api::children::Kind;
use crate::observe::child::ChildWire;
use crate::observe::index::Index;
use crate::observe::seen::{ChildView, FailureKind, Meta, PodView, ServiceView};
use crate::observe::wire::{PodWire, ServiceWire};

/// A child of any kind.
pub(super) enum View {
    Pod(Box<PodView>),
    Service(Box<ServiceView>),
    Other(Box<ChildView>),
}

impl View {
    /// # Errors
    /// An answer that is no object of that kind.
    pub(super) fn of(kind: Kind, answer: Value) -> Result<View, Refusal> {
        let view = match kind {
            Kind::Pod => PodWire::deserialize(answer).map(|w| View::Pod(Box::new(w.into()))),
            Kind::Service => ServiceWire::deserialize(answer).map(|w| View::Service(Box::new(w.into()))),
            _ => ChildWire::deserialize(answer).map(|w| View::Other(Box::new(w.view(kind)))),
        };
        let unreadable = |e| Refusal::new(FailureKind::Unavailable, format!("an answer that cannot be read: {e}"));
        view.map_err(unreadable)
    }

    pub(super) fn meta(&self) -> &Meta {
        match self {
            View::Pod(view) => &view.meta,
            View::Service(view) => &view.meta,
            View::Other(view) => &view.meta,
        }
    }

    /// A claim that outlives its cluster: the cluster's next life finds it.
    pub(super) fn is_uncontrolled(&self) -> bool {
        matches!(self, View::Other(view) if view.is_uncontrolled())
    }

    pub(super) fn apply(self, index: &Index) {
        match self {
            View::Pod(view) => drop(index.apply(*view)),
            View::Service(view) => drop(index.apply(*view)),
            View::Other(view) => drop(index.apply(*view)),
        }
    }

    pub(super) fn leaves(self, index: &Index) {
        match self {
            View::Pod(view) => index.leaves(*view),
            View::Service(view) => index.leaves(*view),
            View::Other(view) => index.leaves(*view),
        }
    }
}
