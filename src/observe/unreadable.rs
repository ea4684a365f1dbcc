//! Objects that could not be decoded, until somebody tells their users.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tokio::sync::Notify;

/// An object, and why it cannot be read.
#[derive(Clone, Debug, PartialEq)]
pub struct Unreadable {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub error: String,
}

/// The latest complaint about each object: a process that does not lead keeps no backlog.
#[derive(Debug, Default)]
pub struct Complaints {
    by_uid: Mutex<BTreeMap<String, Unreadable>>,
    news: Notify,
}

impl Complaints {
    pub fn add(&self, meta: &ObjectMeta, error: String) {
        let text = |t: &Option<String>| t.clone().unwrap_or_default();
        let complaint =
            Unreadable { namespace: text(&meta.namespace), name: text(&meta.name), uid: text(&meta.uid), error };
        let mut all = self.by_uid.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(complaint.uid.clone(), complaint);
        self.news.notify_one();
    }

    /// Drops what was said of an object that is gone or can be read again.
    pub fn withdraw(&self, uid: &str) {
        self.by_uid.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }

    /// Waits for complaints and takes them.
    pub async fn take(&self) -> Vec<Unreadable> {
        loop {
            let news = self.news.notified();
            let taken = std::mem::take(&mut *self.by_uid.lock().unwrap_or_else(PoisonError::into_inner));
            if !taken.is_empty() {
                return taken.into_values().collect();
            }
            news.await;
        }
    }
}
