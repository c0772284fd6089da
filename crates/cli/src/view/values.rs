//! Values shared by several objects of `--json`.

use std::collections::BTreeMap;

use burstline_port::Losses;
use burstline_sys::memory::NodeId;
use serde_json::{Map, Value};

/// Returns lost packets by cause.
pub(super) fn losses(lost: &Losses) -> Value {
    let causes = lost.iter().map(|(cause, packets)| (cause.name().to_owned(), packets.into()));
    Value::Object(causes.collect::<Map<_, _>>())
}

/// Returns pages by node: `{"0": 3}`.
pub(super) fn pages_json(pages: &BTreeMap<NodeId, usize>) -> Value {
    let nodes = pages.iter().map(|(node, &pages)| (node.to_string(), pages.into()));
    Value::Object(nodes.collect())
}
