//! Which nodes does Ray know? `GET /nodes?view=summary` of the dashboard.

use serde::Deserialize;

use crate::observe::seen::RayNode;

pub const PATH: &str = "/nodes?view=summary";

#[derive(Deserialize)]
struct Answer {
    data: Data,
}

#[derive(Deserialize)]
struct Data {
    summary: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    #[serde(default)]
    ip: String,
    #[serde(default)]
    raylet: Raylet,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Raylet {
    node_manager_address: String,
    state: String,
}

/// Reads the dashboard's answer. A dead node stays listed for a while, with another state than `ALIVE`.
///
/// # Errors
/// When the body is not what Ray's dashboard answers.
pub fn parse(body: &[u8]) -> Result<Vec<RayNode>, serde_json::Error> {
    let answer: Answer = serde_json::from_slice(body)?;
    let nodes = answer.data.summary.into_iter().map(|n| RayNode {
        ip: if n.raylet.node_manager_address.is_empty() { n.ip } else { n.raylet.node_manager_address },
        alive: n.raylet.state == "ALIVE",
    });
    Ok(nodes.collect())
}
