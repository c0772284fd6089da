//! The results of a bounce besides its ledger.

use std::fmt::Write;

use burstline_engine::{Bounced, Counted};
use burstline_port::{Rewrite, Touch};
use burstline_wire::link_address;
use serde_json::{Value, json};

use super::inline;
use crate::words::{count_text, packets_text};

/// Appends the text; if `is_whole`, it says where all frames are even if none is missing.
pub(super) fn text(text: &mut String, bounced: &Bounced, counted: &[Counted], is_whole: bool) {
    // Writing to a string cannot fail, here and below.
    let found = &bounced.treatment.found;
    let packets = packets_text(found.packets);
    let _ = match bounced.treatment.touch {
        Touch::None => Ok(()),
        Touch::Headers => {
            writeln!(text, "touched  headers of {packets}, {} IP", count_text(found.ip))
        }
        Touch::Payload => {
            writeln!(text, "touched  all of {packets}, their bytes' sum {:#x}", found.sum)
        }
    };
    if let Some(inline) = &bounced.inline {
        inline::text(text, inline, is_whole);
    }
    for counted in counted.iter().filter(|counted| counted.least < 0) {
        let _ = writeln!(text, "frames   {} IN TWO PLACES meanwhile", -counted.least);
    }
    for census in bounced.frames.iter().filter(|census| is_whole || census.elsewhere() != 0) {
        let elsewhere = match census.elsewhere() {
            0 => "all accounted for".to_owned(),
            frames => format!("{frames} IN A DEVICE"),
        };
        let _ = writeln!(
            text,
            "frames   {}: {} to fill, {} received, {} here, {} to send, {} sent: {elsewhere}",
            census.frames, census.fill, census.rx, census.ours, census.tx, census.completion
        );
    }
}

/// Returns the results as JSON.
pub(super) fn json(bounced: &Bounced, counted: &[Counted]) -> Value {
    let (treatment, found) = (&bounced.treatment, &bounced.treatment.found);
    let frames = bounced.frames.iter().zip(counted).map(|(census, counted)| {
        json!({
            "frames": census.frames,
            "fill": census.fill,
            "rx": census.rx,
            "held": census.ours,
            "tx": census.tx,
            "completion": census.completion,
            "elsewhere": census.elsewhere(),
            "counted": {
                "times": counted.times,
                "least": counted.least,
                "most": counted.most,
            },
        })
    });
    json!({
        "touch": treatment.touch.name(),
        "rewrite": rewrite(treatment.rewrite),
        "touched": { "packets": found.packets, "ip": found.ip, "sum": found.sum },
        "frames": frames.collect::<Vec<_>>(),
        "inline": bounced.inline.as_ref().map(inline::json),
    })
}

fn rewrite(rewrite: Rewrite) -> Value {
    match rewrite {
        Rewrite::None => Value::Null,
        Rewrite::Swap => "swap".into(),
        Rewrite::Set { source, destination } => {
            format!("{},{}", link_address::text(source), link_address::text(destination)).into()
        }
    }
}
