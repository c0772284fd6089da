//! Conditions that show that a program is ready, independent of time.

use std::fs;
use std::time::Duration;

use burstline_testbed::Host;
use burstline_xdp::XdpInterface;
use burstline_xdp::bpf::attached_program;

/// Time limit for a contender to get ready. In an emulated machine that shares its cores, DPDK's
/// testpmd took longer than 30 s, and Open vSwitch with DPDK longer than 20 s.
pub const READY_WITHIN: Duration = Duration::from_secs(120);

/// A set of conditions that must all hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ready {
    /// A text that it prints, on either stream, and how often at least.
    line: &'static str,
    times: usize,
    /// Interfaces that have its XDP program.
    xdp: Vec<String>,
    /// Interfaces that have its packet socket.
    packet: Vec<String>,
}

impl Ready {
    /// Ready as soon as it runs, for callers that observe its work.
    pub fn at_once() -> Self {
        Self::default()
    }

    /// Ready when it has printed this text, the last one of its start.
    pub fn line(line: &'static str) -> Self {
        Self { line, times: 1, ..Self::default() }
    }

    /// Requires the text this many times: a program may print one for each port.
    #[must_use]
    pub fn times(self, times: usize) -> Self {
        Self { times, ..self }
    }

    /// Returns whether `said` has the text often enough.
    pub fn is_said(&self, said: &str) -> bool {
        said.matches(self.line).count() >= self.times
    }

    /// Also requires an XDP program on each of these.
    #[must_use]
    pub fn with_xdp(self, interfaces: &[&str]) -> Self {
        Self { xdp: interfaces.iter().map(|&name| name.to_owned()).collect(), ..self }
    }

    /// Also requires packet sockets that receive from each of these.
    #[must_use]
    pub fn with_packet_sockets(self, interfaces: &[&str]) -> Self {
        Self { packet: interfaces.iter().map(|&name| name.to_owned()).collect(), ..self }
    }

    /// Returns the first unmet condition, for a program on `host` that has printed `said`.
    pub fn lacks(&self, host: &Host, said: &str) -> Option<String> {
        if !self.is_said(said) {
            let times = match self.times {
                0 | 1 => String::new(),
                times => format!(" {times} times"),
            };
            return Some(format!("it has not printed `{}`{times}", self.line));
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

/// Finds the first interface that fails the check, on the host's thread.
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

/// Returns whether one of these packet sockets receives an interface's packets. Source:
/// net/packet/af_packet.c, `packet_seq_show`: address, references, type, protocol, interface,
/// whether it is running.
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
    fn a_line_of_each_port_is_waited_for() {
        let ready = Ready::line("port is up").times(2);
        let said = ["", "port is up\n", "port is up\nport is up\n"];
        assert_eq!(said.map(|said| ready.is_said(said)), [false, false, true]);
        assert!(Ready::line("up").is_said("up") && !Ready::line("up").is_said(""));
        assert!(Ready::at_once().is_said(""));
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
