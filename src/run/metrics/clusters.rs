//! KubeRay's metrics of RayClusters, computed from what is known when they are asked for.

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Error, GaugeVec, Opts};

/// What the metrics say about one RayCluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterSample {
    pub name: String,
    pub namespace: String,
    pub uid: String,
    /// `None`, `RayJob` or `RayService`: from the label that says what the cluster was made for.
    pub owner_kind: String,
    /// Whether the condition RayClusterProvisioned is true.
    pub provisioned: bool,
    /// Seconds from creation until the condition became true last; `None` while it never was.
    pub provisioned_seconds: Option<f64>,
}

pub(super) struct ClusterCollector<F> {
    clusters: F,
    descs: Vec<Desc>,
}

impl<F: Fn() -> Vec<ClusterSample> + Send + Sync> ClusterCollector<F> {
    pub(super) fn new(clusters: F) -> Result<Self, Error> {
        let descs = gauges()?.iter().flat_map(|gauge| gauge.desc().into_iter().cloned()).collect();
        Ok(Self { clusters, descs })
    }

    fn measure(&self) -> Result<Vec<MetricFamily>, Error> {
        let gauges = gauges()?;
        let [info, provisioned, seconds] = &gauges;
        for c in (self.clusters)() {
            let id = [c.name.as_str(), c.namespace.as_str(), c.uid.as_str()];
            info.with_label_values(&[id[0], id[1], c.owner_kind.as_str(), id[2]]).set(1.0);
            let condition = if c.provisioned { "true" } else { "false" };
            provisioned.with_label_values(&[condition, id[0], id[1], id[2]]).set(1.0);
            if let Some(took) = c.provisioned_seconds {
                seconds.with_label_values(&id).set(took);
            }
        }
        Ok(gauges.iter().flat_map(Collector::collect).collect())
    }
}

impl<F: Fn() -> Vec<ClusterSample> + Send + Sync> Collector for ClusterCollector<F> {
    fn desc(&self) -> Vec<&Desc> {
        self.descs.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        // The names and labels are fixed and were accepted in `new`.
        self.measure().unwrap_or_default().into_iter().filter(|family| !family.get_metric().is_empty()).collect()
    }
}

fn gauges() -> Result<[GaugeVec; 3], Error> {
    Ok([
        GaugeVec::new(Opts::new("kuberay_cluster_info", "RayClusters"), &["name", "namespace", "owner_kind", "uid"])?,
        // The truth is in the label, not in the value: KubeRay's dashboards ask for condition="false".
        GaugeVec::new(
            Opts::new("kuberay_cluster_condition_provisioned", "Whether all pods of a RayCluster were ready once"),
            &["condition", "name", "namespace", "uid"],
        )?,
        GaugeVec::new(
            Opts::new("kuberay_cluster_provisioned_duration_seconds", "Time from creation until all pods were ready"),
            &["name", "namespace", "uid"],
        )?,
    ])
}
