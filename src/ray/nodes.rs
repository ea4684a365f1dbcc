//! Which nodes does Ray know? `GET /nodes?view=summary` of the dashboard.

use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::observe::seen::RayNode;

pub const PATH: &str = "/nodes?view=summary";

#[derive(Deserialize)]
struct Answer {
    data: Data,
}

#[derive(Deserialize)]
struct Data {
    #[serde(deserialize_with = "bounded")]
    summary: Vec<Node>,
}

/// More nodes than Ray has ever run; a body that lists more is no dashboard's, and would cost many times its size.
const MOST_NODES: usize = 20_000;

fn bounded<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Node>, D::Error> {
    struct Bounded;
    impl<'de> Visitor<'de> for Bounded {
        type Value = Vec<Node>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "at most {MOST_NODES} nodes")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<Node>, A::Error> {
            let mut nodes = Vec::new();
            while let Some(node) = list.next_element()? {
                if nodes.len() == MOST_NODES {
                    return Err(A::Error::custom(format!("more than {MOST_NODES} nodes")));
                }
                nodes.push(node);
            }
            Ok(nodes)
        }
    }
    deserializer.deserialize_seq(Bounded)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_node_is_listed_and_not_alive() {
        let body = br#"{"result": true, "data": {"summary": [
            {"ip": "10.0.0.1", "raylet": {"nodeManagerAddress": "10.0.0.1", "state": "ALIVE", "isHeadNode": true}},
            {"raylet": {"nodeManagerAddress": "10.0.0.2", "state": "DEAD"}}]}}"#;
        let nodes = parse(body).unwrap();
        let said: Vec<(&str, bool)> = nodes.iter().map(|n| (n.ip.as_str(), n.alive)).collect();
        assert_eq!(said, [("10.0.0.1", true), ("10.0.0.2", false)]);
    }

    #[test]
    fn a_body_of_empty_nodes_is_given_up_early() {
        let body = format!(r#"{{"data":{{"summary":[{}{{}}]}}}}"#, "{},".repeat(1_000_000));
        assert!(parse(body.as_bytes()).unwrap_err().to_string().contains("more than 20000 nodes"));
    }
}
