//! What says that a program is ready: its own facts, none of a clock.

use std::fs;
use std::time::Duration;

use burstline_testbed::Host;
use burstline_xdp::XdpInterface;
use burstline_xdp::bpf::attached_program;

/// Within this time every contender is ready, or something is wrong. In an emulated machine that
/// shares its cores, DPDK's testpmd took longer than 30 s, and Open vSwitch with DPDK than 20.
pub const READY_WITHIN: Duration = Duration::from_secs(120);

/// Facts that all have to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ready {
    /// What it prints, on either stream.
    line: &'static str,
    /// Interfaces that it has an XDP program on.
    xdp: Vec<String>,
    /// Interfaces that it has a packet socket on.
    packet: Vec<String>,
}

impl Ready {
    /// As soon as it runs: who looks for what it does sees whether it does it.
    pub fn at_once() -> Self {
        Self::default()
    }

    /// Once it has printed that, the last of its start.
    pub fn line(line: &'static str) -> Self {
        Self { line, ..Self::default() }
    }

    /// And there is an XDP program on each of these.
    #[must_use]
    pub fn with_xdp(self, interfaces: &[&str]) -> Self {
        Self { xdp: interfaces.iter().map(|&name| name.to_owned()).collect(), ..self }
    }

    /// And packet sockets take packets from each of these.
    #[must_use]
    pub fn with_packet_sockets(self, interfaces: &[&str]) -> Self {
        Self { packet: interfaces.iter().map(|&name| name.to_owned()).collect(), ..self }
    }

    /// What is not so yet, of a program on `host` that has printed `said`.
    pub fn lacks(&self, host: &Host, said: &str) -> Option<String> {
        if !said.contains(self.line) {
            return Some(format!("it has not printed `{}`", self.line));
        }
        let bare = find(host, &self.xdp, |interface| {
            let found = XdpInterface::by_name(interface).ok()?;
            attached_program(found.link.index).ok()?.map(drop)
        });
        if let Some(interface) = bare {
            return Some(format!("there is no XDP program on {interface}"));
        }
        let bare = find(host, &self.packet, |interface| {
            let found = XdpInterface::by_name(interface).ok()?;
            let sockets = fs::read_to_string("/proc/thread-self/net/packet").ok()?;
            listens(&sockets, found.link.index).then_some(())
        });
        bare.map(|interface| format!("no packet socket listens on {interface}"))
    }
}

/// The first interface that fails the check, on the host's thread.
fn find(
    host: &Host,
    interfaces: &[String],
    is_so: impl Fn(&str) -> Option<()> + Send + 'static,
) -> Option<String> {
    if interfaces.is_empty() {
        return None;
    }
    let interfaces = interfaces.to_vec();
    host.run(move || interfaces.into_iter().find(|interface| is_so(interface).is_none()))
}

/// Whether one of these packet sockets takes the packets of an interface.
/// Source: net/packet/af_packet.c, `packet_seq_show`: address, references, type, protocol,
/// interface, whether it is at work.
fn listens(sockets: &str, index: u32) -> bool {
    let index = index.to_string();
    sockets.lines().skip(1).any(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.get(4) == Some(&index.as_str()) && words.get(5) == Some(&"1")
    })
}

#[cfg(test)]
mod tests {
    use burstline_testbed::{Bed, FAR};

    use super::*;

    #[test]
    fn a_packet_socket_counts_once_it_is_bound_to_the_interface() {
        let sockets = "sk               RefCnt Type Proto  Iface R Rmem   User   Inode\n\
                       ffff8c0001 3      3    0003   7     0 0      0      11\n\
                       ffff8c0002 3      3    0003   12    1 0      0      12\n";
        assert!(listens(sockets, 12) && !listens(sockets, 7) && !listens(sockets, 1));
    }

    #[test]
    fn what_is_not_so_yet_is_said() {
        let Some(bed) = Bed::or_skip() else { return };
        let ready = Ready::line("listening").with_packet_sockets(&[FAR]);
        let lack = |said| ready.lacks(&bed.far, said);
        assert_eq!(lack("starting").unwrap(), "it has not printed `listening`");
        assert_eq!(lack("listening on").unwrap(), format!("no packet socket listens on {FAR}"));
        let open = || burstline_afpacket::PlainReceiver::open(FAR, 1 << 20);
        let socket = bed.far.run(open).unwrap();
        assert_eq!(lack("listening on"), None);
        drop(socket);
        let ready = Ready::at_once().with_xdp(&[FAR]);
        let said = ready.lacks(&bed.far, "").unwrap();
        assert_eq!(said, format!("there is no XDP program on {FAR}"));
        assert_eq!(Ready::at_once().lacks(&bed.far, ""), None);
    }
}
