//! Opens the crossings between two addresses.

use std::os::fd::AsFd;
use std::sync::Arc;

use burstline_wire::headers::LinkType;
use burstline_xdp::bpf::XdpMode;
use burstline_xdp::{Copying, Passage, PassageOptions, QueueSlot, Redirect, XdpInterface};

use super::XdpCrossing;
use crate::filter;
use crate::watch::Watch;
use crate::xdp::guard;
use crate::xdp::intake::{Added, KernelWord, QueueLedger};
use crate::xdp::settings::{Settings, parse_end};
use crate::xdp::warnings;
use crate::{
    Address, Capabilities, Crossing, OpenOptions, PortAccount, PortError, PortInfo,
    TimestampSource, Treatment,
};

/// Opens the crossings from one `xdp:` interface to another, and with `is_both` also the other
/// direction. Returns a crossing for each direction of each pair of queues. `frames`, `frame`,
/// `copy` and `wakeup` of the first address apply to both.
///
/// # Errors
/// [`PortError`]: an address is wrong, or the guard or the kernel refuses.
pub(crate) fn open_crossings(
    [first, second]: [&Address; 2],
    is_both: bool,
    treatment: &Treatment,
    options: &OpenOptions,
) -> Result<Vec<Box<dyn Crossing>>, PortError> {
    let ends = [End::parse(first)?, End::parse(second)?];
    let is_one = ends[0].settings.interface == ends[1].settings.interface;
    let mut wanted = passage_options(&ends[0].settings);
    // An entry takes packets; an exit takes none unless its queue becomes ours.
    let is_entry = [true, is_both || is_one];
    for (end, is_entry) in ends.iter().zip(is_entry) {
        if options.may_steal {
            continue;
        }
        match guard::refuse_the_hosts_own(&end.interface.link, end.address) {
            Err(_) if !is_entry && wanted.copying != Copying::Zero => {
                wanted.copying = Copying::Copy;
            }
            outcome => outcome?,
        }
    }
    let only = options.only.compile(&first.to_string(), LinkType::ETHERNET)?;
    let taken = only.as_ref().map(|program| filter::for_kernel(program.instructions()));
    let mut passages = Vec::new();
    for (from, to) in queue_pairs(&ends)? {
        let pair = [(&*ends[0].settings.interface, from), (&*ends[1].settings.interface, to)];
        passages.extend(Passage::open(pair, is_both, &wanted)?);
    }
    let mut programs: Vec<Attached<'_>> = Vec::new();
    for end in &ends {
        let name = &end.interface.link.name;
        let entries = passages.iter().map(Passage::entry);
        let slots: Vec<_> = entries
            .filter(|entry| entry.interface().link.name == *name)
            .map(|entry| QueueSlot {
                queue: entry.queue(),
                socket: entry.as_fd(),
                is_zero_copy: entry.is_zero_copy(),
            })
            .collect();
        let is_known = programs.iter().any(|program| program.interface == name);
        if !slots.is_empty() && !is_known {
            let settings = &end.settings;
            let redirect = settings.redirect(taken.as_deref());
            let redirect = Redirect::new(&end.interface, &slots, redirect)?;
            let warnings = warnings::of(&end.interface, settings.queue, only.is_none(), true);
            // The other address may name the queue of the only pair.
            let is_whole = settings.queue.is_none() && slots.len() as u32 == end.interface.queues;
            let (redirect, added) = (Arc::new(redirect), Added::of(is_whole));
            programs.push(Attached { interface: name, redirect, added, warnings });
        }
    }
    let mut crossings: Vec<Box<dyn Crossing>> = Vec::new();
    for passage in passages {
        let name = &passage.entry().interface().link.name;
        // There is one: this interface was an entry when programs were created.
        let program = programs.iter_mut().find(|program| program.interface == name);
        let Some(program) = program else { continue };
        let (redirect, warnings) = (Arc::clone(&program.redirect), program.warnings.clone());
        let intake = QueueLedger::new(redirect, passage.entry().queue(), program.added.next());
        let crossing = XdpCrossing::new(passage, intake, treatment, warnings);
        crossings.push(Box::new(crossing));
    }
    Ok(crossings)
}

/// The program on an interface, and its warnings.
struct Attached<'a> {
    interface: &'a str,
    redirect: Arc<Redirect>,
    added: Added,
    warnings: Vec<String>,
}

/// One address.
struct End<'a> {
    address: &'a Address,
    settings: Settings,
    interface: XdpInterface,
}

impl<'a> End<'a> {
    fn parse(address: &'a Address) -> Result<Self, PortError> {
        let settings = parse_end(address)?;
        let interface = XdpInterface::by_name(&settings.interface)?;
        Ok(Self { address, settings, interface })
    }
}

fn passage_options(settings: &Settings) -> PassageOptions {
    PassageOptions {
        frame_bytes: settings.socket.frame_bytes,
        frames: settings.socket.frames,
        copying: settings.socket.copying,
        needs_wakeup: settings.socket.needs_wakeup,
        ..PassageOptions::default()
    }
}

/// Returns the pairs of queues.
fn queue_pairs(ends: &[End<'_>; 2]) -> Result<Vec<(u32, u32)>, PortError> {
    let queues = ends[0].interface.queues;
    Ok(match (ends[0].settings.queue, ends[1].settings.queue) {
        (Some(from), to) => vec![(from, to.unwrap_or(from))],
        (None, Some(to)) if queues == 1 => vec![(0, to)],
        (None, Some(to)) => {
            let name = &ends[0].settings.interface;
            let reason = format!("{name} has {queues} queues: name one, e.g. xdp:{name}@0");
            return Err(ends[1].address.bad_value("queue", &to.to_string(), reason).into());
        }
        (None, None) => (0..queues).map(|queue| (queue, queue)).collect(),
    })
}

impl XdpCrossing {
    fn new(
        passage: Passage,
        intake: QueueLedger,
        treatment: &Treatment,
        warnings: Vec<String>,
    ) -> Self {
        let (from, to) = (passage.entry(), passage.exit());
        let place = |end: &burstline_xdp::QueueEnd| {
            format!("xdp:{}@{}", end.interface().link.name, end.queue())
        };
        let mut account = PortAccount { warnings, ..PortAccount::default() };
        let attached = intake.attached();
        let is_generic = attached.mode() == XdpMode::Generic;
        let why = attached.notes().iter().filter(|_| is_generic);
        why.for_each(|note| account.hint(|| note.clone()));
        let mode = if is_generic { "generic" } else { "native" };
        account.hint(|| match passage.is_zero_copy() {
            true => "zero-copy: frames stay in place, both devices use them".to_owned(),
            false => format!(
                "frames stay where they are, no copy here; the kernel copies each packet into its \
                 frame and out of it ({mode} XDP, copy mode)"
            ),
        });
        let info = PortInfo {
            name: format!("{} > {}", place(from), place(to)),
            capabilities: Capabilities { can_drain: true, ..Capabilities::default() },
            timestamps: TimestampSource::Poll,
        };
        Self {
            info,
            entry: Watch::new(&from.interface().link),
            exit: Watch::new(&to.interface().link),
            kernel: KernelWord::default(),
            intake,
            treatment: *treatment,
            backlog: passage.census().frames / 4,
            passage,
            taken: 0,
            given_up: 0,
            account,
        }
    }
}
