//! Finds out what can be opened on this machine, and why not: each kind of port probes itself.
//!
//! ```text
//!            for each interface
//! SCHEMES ------------------------> probe(address) --> Probe { opens: yes | with | no, why, mend }
//!            once, for the others
//! ```
//!
//! A probe runs the steps of opening, up to the first one that others would notice. It puts no
//! interface into promiscuous mode, takes no queue of a real device, and attaches no program. So
//! the XDP mode that it reports is the driver's claim. With [`ProbeOptions::may_attach`] it takes
//! these steps too, with a program that passes every packet on. It never does so on the interface
//! that the host depends on.
//!
//! Invariants:
//! - P1: a port opens if its probe says yes. If it says "with", the port opens with the named flags
//!   and not without. If it says no, the port does not open. This holds while the machine does not
//!   change.
//! - P2: nothing that a probe opened is open when it returns, and it took no packet from others.

use burstline_sys::device::Device;
use burstline_sys::machine::{Capability, Rights, program};

use crate::Address;
use crate::open::{Probing, SCHEMES};

/// How far a probe goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProbeOptions {
    /// Whether to bind sockets and attach a program that passes every packet. A network card may
    /// reset its rings for that, which loses some packets.
    pub may_attach: bool,
}

/// The outcome of trying one port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Probe {
    /// Its address.
    pub port: String,
    /// Its scheme.
    pub scheme: &'static str,
    /// The interface, if it is one.
    pub interface: Option<String>,
    /// Whether it opens, given what it needs.
    pub can_open: bool,
    /// Flags that it needs to be opened: `--steal`.
    pub needs: Vec<&'static str>,
    /// Why it does not open, or not without what it needs.
    pub why_not: Option<String>,
    /// The command that fixes it.
    pub mend: Option<String>,
    /// Other things to know.
    pub remarks: Vec<Remark>,
    /// Receive queues: as many ports and threads.
    pub queues: Option<u32>,
    /// XDP: the mode that the program would run in.
    pub mode: Option<&'static str>,
    /// XDP: whether the mode was tested, and is not just the driver's claim.
    pub is_mode_tried: bool,
    /// XDP: whether the device can write into our memory.
    pub has_zero_copy: Option<bool>,
    /// XDP: the number of the program attached to the interface.
    pub attached_program: Option<u32>,
    /// What is known of the device.
    pub device: Device,
}

/// A remark on a port that opens nevertheless.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// The remark.
    pub what: String,
    /// The command that changes it.
    pub mend: Option<String>,
}

/// Probes every scheme: interface schemes with each of `interfaces`, in that order, then the
/// others, which need none.
///
/// Cost: milliseconds per interface, and briefly as much memory as its XDP port would take.
pub fn probe_ports(interfaces: &[String], options: &ProbeOptions) -> Vec<Probe> {
    let mut probes = Vec::new();
    for interface in interfaces {
        for scheme in SCHEMES {
            if let Probing::Interface(try_it) = scheme.probing {
                let port = format!("{}:{}", scheme.name, escaped(interface));
                let interface = Some(interface.clone());
                let mut probe = Probe { port, scheme: scheme.name, interface, ..Probe::default() };
                match probe.port.parse::<Address>() {
                    Ok(address) => try_it(&address, options, &mut probe),
                    Err(error) => probe.refuse(&error),
                }
                probes.push(probe);
            }
        }
    }
    for scheme in SCHEMES {
        let port = format!("{}:", scheme.name);
        let mut probe = Probe { port, scheme: scheme.name, ..Probe::default() };
        match scheme.probing {
            Probing::Always | Probing::Built(true) => probe.can_open = true,
            Probing::Built(false) => {
                let mend = format!("make {}", scheme.name);
                probe.refuse_with("not built into this program".into(), Some(mend));
            }
            Probing::Machine(look) => look(&mut probe),
            Probing::Interface(_) => continue,
        }
        probes.push(probe);
    }
    probes
}

/// Escapes an interface's name as the target of an address.
fn escaped(name: &str) -> String {
    name.replace('%', "%25").replace('?', "%3F")
}

impl Probe {
    /// Records a refusal, in the words of an error that includes its fix.
    pub(crate) fn refuse(&mut self, error: &dyn std::error::Error) {
        self.refuse_with(error.to_string(), None);
    }

    pub(crate) fn refuse_with(&mut self, why_not: String, mend: Option<String>) {
        self.can_open = false;
        (self.why_not, self.mend) = (Some(why_not), mend);
    }

    /// Records a refusal for missing rights. `needed` are the capabilities that opening takes.
    pub(crate) fn refuse_for_rights(&mut self, needed: &[Capability]) {
        let (why_not, mend) = rights_wanted(needed, Rights::read(), &program());
        self.refuse_with(why_not, Some(mend));
    }

    pub(crate) fn remark(&mut self, what: String, mend: Option<String>) {
        self.remarks.push(Remark { what, mend });
    }

    /// Adds a packet port's remark on an interface that is down.
    pub(crate) fn remark_if_down(&mut self, name: &str, is_up: bool) {
        if !is_up {
            let mend = format!("ip link set dev {name} up");
            self.remark("it is down: it receives nothing".to_owned(), Some(mend));
        }
    }
}

/// Returns what is missing, and the command to grant it.
fn rights_wanted(needed: &[Capability], rights: Rights, program: &str) -> (String, String) {
    let names = |list: &[Capability]| {
        list.iter().map(|capability| capability.name).collect::<Vec<_>>().join(", ")
    };
    let missing: Vec<_> = needed.iter().copied().filter(|&one| !rights.has(one)).collect();
    let lower = names(needed).to_lowercase().replace(", ", ",");
    let setcap = format!("sudo setcap {lower}+ep {program}");
    if !rights.is_machine_wide {
        let why = format!("needs {} of the machine, not of a user namespace", names(needed));
        return (why, format!("outside of the namespace: {setcap}"));
    }
    let why = match missing.is_empty() {
        true => format!("the kernel refuses despite {}", names(needed)),
        false => format!("lacks {}", names(&missing)),
    };
    let is_bounded = missing.iter().any(|one| rights.bounding & 1 << one.number == 0);
    let mend = match is_bounded {
        // File capabilities cannot grant what a container has removed.
        true => {
            let flags = needed.iter().map(|one| one.name.replace("CAP_", "--cap-add "));
            format!("start the container with {}", flags.collect::<Vec<_>>().join(" "))
        }
        false => setcap,
    };
    (why, mend)
}

#[cfg(test)]
mod tests {
    use burstline_sys::machine::capability::{BPF, NET_RAW};

    use super::*;

    #[test]
    fn what_is_missing_depends_on_where_one_is() {
        let bit = |capability: Capability| 1 << capability.number;
        let user = Rights { effective: bit(NET_RAW), bounding: u64::MAX, is_machine_wide: true };
        let (why, mend) = rights_wanted(&[NET_RAW, BPF], user, "/bin/b");
        assert_eq!(why, "lacks CAP_BPF");
        assert_eq!(mend, "sudo setcap cap_net_raw,cap_bpf+ep /bin/b");
        let container = Rights { bounding: bit(NET_RAW), ..user };
        let (_, mend) = rights_wanted(&[NET_RAW, BPF], container, "/bin/b");
        assert_eq!(mend, "start the container with --cap-add NET_RAW --cap-add BPF");
        let inside = Rights { effective: u64::MAX, is_machine_wide: false, ..user };
        let (why, mend) = rights_wanted(&[BPF], inside, "/bin/b");
        assert_eq!(why, "needs CAP_BPF of the machine, not of a user namespace");
        assert!(mend.starts_with("outside of the namespace: sudo setcap cap_bpf+ep"), "{mend}");
    }

    #[test]
    fn names_of_interfaces_survive_as_addresses() {
        let address: Address = format!("afpacket:{}", escaped("a%3F?b")).parse().unwrap();
        assert_eq!(address.target(), "a%3F?b");
    }
}
