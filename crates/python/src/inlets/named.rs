//! A published name: its logs, read in place, and its successive writers.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use burstline_port::{Address, Filter, LogSettings};
use burstline_port::{FilterByLink, Loss, Losses, OpenOptions};
use burstline_share::{AttachConfig, Follower, Next, ShareError, Trust, published_sockets};
use burstline_wire::headers::LinkType;

use crate::fault::Fault;
use crate::inlet::Found;
use crate::lent::Lent;
use crate::links::{Links, learn};
use crate::report::{Row, Tally};

/// Interval between checks for a missing publisher.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Maximum number of names listed in an error.
const NEAR_MOST: usize = 5;

/// The logs of a name.
pub(crate) struct Named {
    name: String,
    follower: Follower,
    /// For each log of the name, in the current epoch.
    links: Vec<Arc<Links>>,
    epoch: u64,
    filter: Filter,
    by_link: FilterByLink,
    snapshot_bytes: Option<u32>,
    window: usize,
    delivered: Tally,
    filtered: u64,
    /// Packets of bursts for which the filter could not be compiled.
    unjudged: u64,
}

impl Named {
    /// Attaches, waiting for a publisher until `until`; `check` may end the wait early.
    pub(crate) fn open(
        address: &Address,
        window: usize,
        gives_verdicts: bool,
        options: &OpenOptions,
        check: impl Fn() -> bool,
    ) -> Result<Self, Fault> {
        let settings = LogSettings::parse(address)?;
        // By default an address trusts readers of the same program file. Here that is the Python
        // interpreter, which runs anyone's code.
        let says_trust = address.parameter("trust").is_some_and(|word| word != "program");
        let trust = if says_trust { settings.trust } else { Trust::NOBODY };
        let window = if address.parameter("window").is_some() { settings.window } else { window };
        let attach = AttachConfig {
            policy: settings.policy,
            window,
            start: settings.start,
            log: settings.log,
            trust,
            gives_verdicts,
        };
        let until = Instant::now() + settings.wait;
        let follower = loop {
            match Follower::open(&settings.name, &attach, settings.is_following) {
                Err(ShareError::Absent { .. }) if Instant::now() < until && !check() => {
                    thread::sleep(LOOK_EVERY);
                }
                Err(error) => {
                    let near = near(&error);
                    return Err(Fault::Share { error, near });
                }
                Ok(follower) => break follower,
            }
        };
        let mut by_link = FilterByLink::new(&options.filter);
        // Report an invalid expression now, not at the first packet.
        by_link.add(&address.to_string(), LinkType::ETHERNET)?;
        Ok(Self {
            name: address.to_string(),
            epoch: follower.link().epoch(),
            follower,
            links: Vec::new(),
            filter: options.filter.clone(),
            by_link,
            snapshot_bytes: options.snapshot_bytes,
            window,
            delivered: Tally::default(),
            filtered: 0,
            unjudged: 0,
        })
    }

    /// Polls for packets, for at most `timeout_ns`.
    pub(crate) fn look(&mut self, timeout_ns: u64) -> Result<Found, Fault> {
        let (held, log) = match self.follower.next(timeout_ns, || false)? {
            Next::Burst { held, log } => (held, log),
            Next::None | Next::Interrupted => return Ok(Found::Nothing),
            Next::End => return Ok(Found::End),
            Next::WindowFull => return Ok(Found::WindowFull { window: self.window }),
        };
        let epoch = self.follower.link().epoch();
        if epoch != self.epoch {
            (self.epoch, self.links) = (epoch, Vec::new());
        }
        let index = (log - self.follower.first_log()) as usize;
        if self.links.len() <= index {
            self.links.resize_with(index + 1, Default::default);
        }
        let follower = &self.follower;
        let links = learn(&mut self.links[index], held.burst().worklist(), |port| {
            follower.port_name(log, port)
        });
        let hash_kind = follower.feeds().get(index).map_or(0, |feed| feed.hash_kind());
        let mut lent = Lent::new(held, links, log, epoch, hash_kind);
        if self.filter != Filter::All || self.snapshot_bytes.is_some() {
            self.compile(&lent)?;
            self.filtered += lent.choose(&self.by_link, self.snapshot_bytes);
        }
        if let Some(giver) = self.follower.verdicts(log) {
            lent.wait_for(giver);
        }
        self.delivered.add(&lent);
        // If the filter rejects all packets there is no burst; the caller polls again.
        Ok(if lent.len() == 0 { Found::Again } else { Found::Burst(Arc::new(lent)) })
    }

    /// Compiles the filter for the link types of a burst.
    fn compile(&mut self, lent: &Lent) -> Result<(), Fault> {
        let mut last = None;
        for packet in lent.burst().packets() {
            let link = lent.links.link(packet.port());
            if last.replace(link) != Some(link)
                && let Err(error) = self.by_link.add(&self.name, link)
            {
                self.unjudged += lent.burst().len() as u64;
                return Err(error.into());
            }
        }
        Ok(())
    }

    pub(crate) fn row(&self) -> Row {
        let sums = self.follower.sums();
        let mut lost = Losses::default();
        lost.add(Loss::ReaderOverrun, sums.missed);
        for (cause, packets) in [(Loss::Filtered, self.filtered), (Loss::Unjudged, self.unjudged)] {
            if packets > 0 || cause == Loss::Filtered && self.filter != Filter::All {
                lost.add(cause, packets);
            }
        }
        // The follower's own count of what it has taken, independent of the loop here.
        let consumed = sums.delivered.saturating_add(sums.missed);
        Row {
            port: self.name.clone(),
            offered: sums.offered,
            delivered: self.delivered,
            lost,
            in_flight: sums.offered.saturating_sub(consumed),
            writer_down: self.follower.writers_down(),
            ..Row::default()
        }
    }
}

/// Returns the published names, to append to an error about a missing one.
fn near(error: &ShareError) -> String {
    if !matches!(error, ShareError::Absent { .. }) {
        return String::new();
    }
    let sockets = published_sockets();
    let names: Vec<_> =
        sockets.iter().filter_map(|path| path.file_name()?.to_str()).take(NEAR_MOST).collect();
    match names.is_empty() {
        true => String::new(),
        false => format!("; there is {}", names.join(", ")),
    }
}
