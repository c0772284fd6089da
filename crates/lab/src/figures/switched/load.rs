//! The load that sends and receives packets: testpmd on a separate core.

use std::thread::sleep;
use std::time::Duration;

use super::{Context, Setting};
use crate::live::{Contender, Road};
use crate::programs::{Mode, Rates, Testpmd, Totals};

/// How long it sends before its rate counts and while it does. testpmd prints one rate per second.
const TURN: Duration = Duration::from_millis(4200);
const SMOKE_TURN: Duration = Duration::from_millis(2200);

/// The result of a load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Loaded {
    pub(super) totals: Totals,
    /// Packets received per second.
    pub(super) pps: f64,
}

/// Returns the sockets of the two cables.
pub(super) fn sockets(road: &Road) -> [String; 2] {
    ["a", "b"].map(|name| road.file(name))
}

/// A load that sends.
pub(super) struct Sending<'a> {
    load: Contender<'a>,
    is_smoke: bool,
}

/// Sends through a ready middle for a turn. `is_server`: the load creates the sockets.
pub(super) fn send(
    context: &Context,
    setting: &Setting,
    road: &Road,
    is_server: bool,
) -> Result<Loaded, String> {
    let (pps, said) = start(context, setting, road, is_server)?.end()?;
    Ok(Loaded { totals: Totals::parse(&said)?, pps })
}

/// Like [`send`], but still sending after the turn.
pub(super) fn start<'a>(
    context: &Context,
    setting: &Setting,
    road: &'a Road,
    is_server: bool,
) -> Result<Sending<'a>, String> {
    let core = context.cores.producer;
    let testpmd = Testpmd {
        main: core,
        cores: vec![core],
        ports: sockets(road).map(|socket| setting.cable.far_end(socket, is_server)).to_vec(),
        mode: Mode::Flows(setting.flows),
        has_rates: true,
        more: "--disable-link-check".to_owned(),
    };
    let load = Contender::start(road, &testpmd.core_list(), &testpmd, &context.stop)?;
    let is_smoke = context.smoke;
    sleep(if is_smoke { SMOKE_TURN } else { TURN });
    Ok(Sending { load, is_smoke })
}

impl Sending<'_> {
    /// Ends it. Returns the packets received per second, and all its output.
    pub(super) fn end(self) -> Result<(f64, String), String> {
        let (said, _) = self.load.end()?;
        let rates = Rates::parse(&said, "Rx-pps:").0;
        // The first rate is from its start, and in the next second the rings were filling up.
        let rates = rates.get(if self.is_smoke { 1 } else { 2 }..).unwrap_or_default();
        if rates.is_empty() {
            return Err(format!("the load printed no rate: {said}"));
        }
        Ok((rates.iter().sum::<f64>() / rates.len() as f64, said))
    }
}
