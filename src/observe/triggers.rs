//! Who is to be looked at again. Closed until somebody listens: a process that does not lead keeps no backlog, and the
//! one that begins to lead looks at everything once.

use std::sync::OnceLock;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::index::Owner;

/// A queue with one listener at most. The listener's scheduler merges triggers of one owner.
#[derive(Debug, Default)]
pub struct Triggers {
    sender: OnceLock<UnboundedSender<Owner>>,
}

impl Triggers {
    /// Begins to keep triggers, for the one who calls first.
    pub fn listen(&self) -> Option<UnboundedReceiver<Owner>> {
        let (sender, receiver) = unbounded_channel();
        self.sender.set(sender).ok().map(|()| receiver)
    }

    /// Asks for a pass over an owner, if there is one and somebody listens.
    pub fn pull(&self, owner: Option<Owner>) {
        if let (Some(owner), Some(sender)) = (owner, self.sender.get()) {
            // A listener that has gone away is shutting down.
            let _ = sender.send(owner);
        }
    }
}
