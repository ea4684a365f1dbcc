//! Which feature gates there are, and which are on.

use std::collections::BTreeMap;

use thiserror::Error;

/// How far along a feature is. Alpha is off by default, beta is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Alpha,
    Beta,
}

/// KubeRay v1.7's gates. A new one is a line here and nothing else.
pub const GATES: &[(&str, Stage)] = &[
    ("GCSFaultToleranceEmbeddedStorage", Stage::Alpha),
    ("KubernetesWAS", Stage::Alpha),
    ("RayClusterHistoryServer", Stage::Alpha),
    ("RayClusterMTLS", Stage::Alpha),
    ("RayClusterNetworkPolicy", Stage::Alpha),
    ("RayClusterStatusConditions", Stage::Beta),
    ("RayCronJob", Stage::Alpha),
    ("RayJobDeletionPolicy", Stage::Beta),
    ("RayMultiHostIndexing", Stage::Beta),
    ("RayServiceIncrementalUpgrade", Stage::Beta),
    ("SidecarSubmitterRestart", Stage::Alpha),
];

/// Gates that older releases of KubeRay knew. Values files in the field still name them, so they draw a notice only.
const RETIRED: &[&str] = &["AsyncJobInfoQuery"];

/// What we do not have. Its API has another version in each of the Kubernetes releases 1.35 (v1alpha1), 1.36 (v1alpha2) and
/// 1.37 (v1alpha3, v1beta1), each time of another shape, and none of these is served by default.
const NOT_HERE: &str = "KubernetesWAS";

/// Which features are on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeatureGates(BTreeMap<&'static str, bool>);

/// Why `--feature-gates` was refused.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum GateError {
    #[error("--feature-gates: {0:?} is not of the form Name=true or Name=false")]
    Form(String),
    #[error("--feature-gates: {name}={value:?} is neither true nor false")]
    Value { name: String, value: String },
    #[error(
        "--feature-gates: {0} is not in this release, because the Kubernetes API below it changes with every Kubernetes release. Remove it, and gang-schedule with --batch-scheduler"
    )]
    NotHere(&'static str),
    #[error("--feature-gates: there is no gate {name:?}. Known gates: {}, AllAlpha, AllBeta", names())]
    Unknown { name: String },
}

impl Default for FeatureGates {
    fn default() -> Self {
        Self(GATES.iter().map(|(name, stage)| (*name, *stage == Stage::Beta)).collect())
    }
}

impl FeatureGates {
    /// Reads Kubernetes' form, `A=true,B=false`; a later mention wins. `AllAlpha` and `AllBeta` speak for the gates of
    /// their stage that are not named, wherever they stand. The second part of the answer is notices for the log.
    pub fn parse(text: &str) -> Result<(Self, Vec<String>), GateError> {
        let mut gates = Self::default();
        let mut notices = Vec::new();
        let mut named = BTreeMap::new();
        let (mut alpha, mut beta) = (None, None);
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').ok_or_else(|| GateError::Form(part.to_string()))?;
            let (name, value) = (name.trim(), value.trim());
            let on =
                go_bool(value).ok_or_else(|| GateError::Value { name: name.to_string(), value: value.to_string() })?;
            match name {
                "AllAlpha" => alpha = Some(on),
                "AllBeta" => beta = Some(on),
                _ if RETIRED.contains(&name) => {
                    notices.push(format!(
                        "feature gate {name} is retired and has no effect: remove it from --feature-gates"
                    ));
                }
                _ => {
                    let known = GATES.iter().find(|(known, _)| *known == name);
                    let (known, _) = known.ok_or_else(|| GateError::Unknown { name: name.to_string() })?;
                    if on && *known == NOT_HERE {
                        return Err(GateError::NotHere(NOT_HERE));
                    }
                    named.insert(*known, on);
                }
            }
        }
        for (name, stage) in GATES {
            let all = if *stage == Stage::Alpha { alpha } else { beta };
            if let Some(on) = named.get(name).copied().or(all.filter(|_| *name != NOT_HERE)) {
                gates.0.insert(name, on);
            }
        }
        if alpha == Some(true) {
            notices.push(format!("AllAlpha leaves {NOT_HERE} off: this release does not have it"));
        }
        Ok((gates, notices))
    }

    /// Whether a gate of [`GATES`] is on; a name that is not there is off.
    pub fn on(&self, name: &str) -> bool {
        self.0.get(name).copied().unwrap_or(false)
    }
}

/// Go's `strconv.ParseBool`.
pub fn go_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

fn names() -> String {
    GATES.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(text: &str) -> Vec<&'static str> {
        let (gates, _) = FeatureGates::parse(text).expect(text);
        GATES.iter().map(|(name, _)| *name).filter(|name| gates.on(name)).collect()
    }

    #[test]
    fn what_is_on() {
        let beta = on("");
        assert_eq!(
            beta,
            [
                "RayClusterStatusConditions",
                "RayJobDeletionPolicy",
                "RayMultiHostIndexing",
                "RayServiceIncrementalUpgrade"
            ]
        );
        assert_eq!(on("AllBeta=false"), Vec::<&str>::new());
        assert_eq!(on("AllAlpha=true").len(), GATES.len() - 1);
        assert_eq!(on("RayCronJob=true, AllBeta=0"), ["RayCronJob"]);
        assert_eq!(on("RayCronJob=false,AllAlpha=true,").len(), GATES.len() - 2, "a name wins over All, in any order");
        assert_eq!(on("RayCronJob=true,RayCronJob=false"), beta, "the later one wins");
        assert_eq!(on("AsyncJobInfoQuery=true"), beta);
    }

    #[test]
    fn refused_and_noticed() {
        let unknown = FeatureGates::parse("RayCronJbo=true").unwrap_err().to_string();
        assert!(unknown.contains("\"RayCronJbo\"") && unknown.contains("RayCronJob, "), "{unknown}");
        let absent = FeatureGates::parse("KubernetesWAS=true").unwrap_err().to_string();
        assert!(absent.contains("KubernetesWAS") && absent.contains("--batch-scheduler"), "{absent}");
        assert!(FeatureGates::parse("KubernetesWAS=false").unwrap().1.is_empty());
        assert!(FeatureGates::parse("AllAlpha=true").unwrap().1[0].contains("KubernetesWAS"));
        assert!(FeatureGates::parse("RayCronJob").is_err());
        assert!(FeatureGates::parse("RayCronJob=yes").is_err());
        let (_, notices) = FeatureGates::parse("AsyncJobInfoQuery=true").unwrap();
        assert!(notices[0].contains("retired"));
    }
}
