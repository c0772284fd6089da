//! Suricata's workers, and how either side brings them packets.

/// The same for each thread of AF_PACKET: room for more than half a second.
const RING: &str = "ring-size=65536";
/// Who shares what comes in by an interface. Source: suricata.yaml, `af-packet`.
const FANOUT: [&str; 2] = ["cluster-id=99", "cluster-type=cluster_flow"];
/// A file of events for each thread: the second of the configuration's outputs.
const EVENTS: &str = "--set outputs.1.eve-log.threaded=yes";

/// How many there are, at least one.
#[derive(Clone, Copy)]
pub(crate) struct Workers(pub(crate) usize);

impl Workers {
    /// The words of burstline that publish what they read: a log for each of several.
    pub(crate) fn publisher(self) -> String {
        match self.0 {
            1 => "count".to_owned(),
            workers => format!("balance --workers {workers}"),
        }
    }

    /// Suricata's words for packets of the published name.
    pub(crate) fn on_log(self, name: &str) -> String {
        match self.0 {
            1 => format!("--pcap=burst:{name} {}", self.mode()),
            workers => {
                let device = |worker| format!("--pcap=burst:{name}@{worker} ");
                (0..workers).map(device).collect::<String>() + &self.mode()
            }
        }
    }

    /// Suricata's words for packets of the interface.
    pub(crate) fn on_interface(self) -> String {
        let threads = format!("threads={}", self.0);
        let shares = if self.0 == 1 { &[][..] } else { &FANOUT };
        let settings = [&["interface=v1", &*threads, RING], shares].concat();
        let settings = settings.iter().map(|setting| format!(" --set af-packet.0.{setting}"));
        format!("--af-packet=v1{} {}", settings.collect::<String>(), self.mode())
    }

    fn mode(self) -> String {
        match self.0 {
            1 => "--runmode=single".to_owned(),
            _ => format!("--runmode=workers {EVENTS}"),
        }
    }

    /// Both sides, in words.
    pub(crate) fn about(self) -> String {
        let (ours, peer) = (self.on_log("tap"), self.on_interface());
        let publisher = self.publisher();
        format!(
            "ours: suricata {ours} by our libpcap, beside burstline {publisher} xdp:v1 --publish \
             tap; peer: suricata {peer}; both on one core"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_of_several_workers_has_a_log_or_a_place_in_the_group() {
        let (one, two) = (Workers(1), Workers(2));
        assert_eq!(one.on_log("tap"), "--pcap=burst:tap --runmode=single");
        assert!(!one.on_interface().contains("cluster"), "{}", one.on_interface());
        let words = two.on_log("tap");
        assert!(words.starts_with("--pcap=burst:tap@0 --pcap=burst:tap@1 --runmode=workers "));
        let words = two.on_interface();
        let settings = ["threads=2", "cluster-type=cluster_flow", "ring-size=65536"];
        for setting in settings.map(|setting| format!(" --set af-packet.0.{setting} ")) {
            assert!(words.contains(&setting), "{words}");
        }
        assert_eq!(two.publisher(), "balance --workers 2");
    }
}
