//! When to stop.

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tracing::{info, warn};

/// Tells tasks that the process should end. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Shutdown(watch::Receiver<bool>);

impl Shutdown {
    /// Listens for SIGTERM and SIGINT. The first one asks everybody to stop; the second one ends the process at once,
    /// with the exit code that shells use for it. Fails when the process may not install signal handlers.
    pub fn on_signals() -> std::io::Result<Self> {
        let mut term = signal(SignalKind::terminate())?;
        let mut int = signal(SignalKind::interrupt())?;
        let (stop, stopped) = watch::channel(false);
        tokio::spawn(async move {
            let mut received = 0;
            loop {
                let (name, code) = tokio::select! {
                    _ = term.recv() => ("SIGTERM", 143),
                    _ = int.recv() => ("SIGINT", 130),
                };
                received += 1;
                if received > 1 {
                    warn!("{name} again: ending at once");
                    std::process::exit(code);
                }
                info!("{name}: stopping");
                stop.send_replace(true);
            }
        });
        Ok(Self(stopped))
    }

    /// A shutdown that comes when true is sent, for tests.
    pub fn from_channel(stopped: watch::Receiver<bool>) -> Self {
        Self(stopped)
    }

    /// Whether the process should end.
    pub fn is_set(&self) -> bool {
        *self.0.borrow()
    }

    /// Returns when the process should end.
    pub async fn wait(&self) {
        // A sender that is gone asks to stop as well.
        let _ = self.0.clone().wait_for(|stop| *stop).await;
    }
}
