//! The machine room: start order, leader election, metrics, health, logs, the client.

use std::sync::Arc;

use kube::Config as Cluster;
use thiserror::Error;
use tokio::task::JoinSet;
use tracing::{info, warn};

use crate::config::Config;

pub mod client;
pub mod controllers;
pub mod discovery;
pub mod driver;
pub mod health;
pub mod leader;
pub mod logs;
pub mod metrics;
pub mod rotate;
pub mod signals;

use client::ClientOptions;
use controllers::Controllers;
use health::Readiness;
use leader::{Elector, LeaderConfig, Leadership};
use metrics::Metrics;
use signals::Shutdown;

/// What readiness waits for before the watches begin.
const API_GROUPS: &str = "API groups";

/// Why the operator did not start, or had to end.
#[derive(Debug, Error)]
pub enum StartError {
    #[error("cannot listen for signals: {0}")]
    Signals(std::io::Error),
    #[error("cannot set up metrics: {0}")]
    Metrics(#[from] prometheus::Error),
    #[error(transparent)]
    Listen(#[from] health::ListenError),
    #[error(transparent)]
    Connect(#[from] client::ConnectError),
    #[error("lost the lead: {0}")]
    Lead(#[from] leader::LeaderError),
    #[error("stopped serving probes and metrics: {0}")]
    Serve(String),
}

/// Runs the operator until a signal ends it (`Ok`), or it may not go on (an error; the process should exit with 1, and
/// its pod comes back as a candidate). Must be called within a tokio runtime that drives I/O and time.
pub async fn start(config: Config) -> Result<(), StartError> {
    let shutdown = Shutdown::on_signals().map_err(StartError::Signals)?;
    info!(version = env!("CARGO_PKG_VERSION"), "ray-operator starts");
    for notice in &config.notices {
        warn!("{notice}");
    }
    let metrics = Arc::new(Metrics::new()?);
    let readiness = Readiness::default();
    let mut servers = serve(&config, &metrics, &readiness).await?;

    let cluster = client::find_cluster(config.kubeconfig.as_deref()).await?;
    info!(server = %cluster.cluster_url, "found the cluster");
    let leadership = if config.leader_election { Leadership::none() } else { Leadership::always() };
    let options = ClientOptions {
        qps: config.qps,
        burst: config.burst,
        tries: client::retry::TRIES,
        right: Some(leadership.clone()),
        faults: None,
    };
    let client = client::build(cluster.clone(), options, metrics.clone()).map_err(client::ConnectError::from)?;
    readiness.wait_for(API_GROUPS);
    let openshift = tokio::select! {
        openshift = discovery::openshift(&client) => openshift,
        () = shutdown.wait() => return Ok(()),
    };
    let mut elector = match config.leader_election {
        true => Some(compete(&config, cluster, &leadership, &metrics)?),
        false => None,
    };

    let controllers = Controllers::start(&config, openshift, &client, leadership.clone(), &readiness, &metrics)?;
    readiness.done(API_GROUPS);

    let end = tokio::select! {
        () = shutdown.wait() => Ok(()),
        lost = lost(&mut elector) => Err(StartError::Lead(lost)),
        Some(ended) = servers.join_next(), if !servers.is_empty() => Err(StartError::Serve(match ended {
            Ok(Err(error)) => error.to_string(),
            Ok(Ok(())) => "the server ended".to_string(),
            Err(error) => error.to_string(),
        })),
    };

    controllers.stop().await;
    if let Some(elector) = elector.filter(|_| !matches!(end, Err(StartError::Lead(_)))) {
        elector.release().await;
    }
    end
}

async fn serve(
    config: &Config,
    metrics: &Arc<Metrics>,
    readiness: &Readiness,
) -> Result<JoinSet<std::io::Result<()>>, StartError> {
    let mut servers = JoinSet::new();
    if let Some(listener) = health::listen("--metrics-addr", &config.metrics_addr).await? {
        servers.spawn(health::serve(listener, health::metrics_router(metrics.clone(), readiness.clone())));
    }
    if let Some(listener) = health::listen("--health-probe-bind-address", &config.health_addr).await? {
        servers.spawn(health::serve(listener, health::probes_router(readiness.clone())));
    }
    Ok(servers)
}

fn compete(
    config: &Config,
    cluster: Cluster,
    leadership: &Leadership,
    metrics: &Arc<Metrics>,
) -> Result<Elector, client::ConnectError> {
    let namespace = config.leader_election_namespace.clone().unwrap_or_else(|| cluster.default_namespace.clone());
    // A client of its own: renewals neither queue behind other requests nor need a lead, and the election knows better
    // than a client when to try again.
    let options = ClientOptions { qps: 0.0, burst: 1, tries: 1, right: None, faults: None };
    let client = client::build(cluster, options, metrics.clone())?;
    let config = LeaderConfig {
        namespace,
        name: leader::LEASE_NAME.to_string(),
        identity: leader::identity(),
        timings: leader::election::Timings::default(),
    };
    Ok(Elector::start(client, config, leadership.clone(), metrics.clone()))
}

async fn lost(elector: &mut Option<Elector>) -> leader::LeaderError {
    match elector {
        Some(elector) => elector.lost().await,
        None => std::future::pending().await,
    }
}
