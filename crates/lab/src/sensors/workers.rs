//! Suricata's workers, and how they get packets on either side.

/// Ring size of each AF_PACKET thread: holds more than half a second.
const RING: &str = "ring-size=65536";
/// Fanout settings for an interface's packets. Source: suricata.yaml, `af-packet`.
const FANOUT: [&str; 2] = ["cluster-id=99", "cluster-type=cluster_flow"];
/// Separate event files for each thread: the second of the configuration's outputs.
const EVENTS: &str = "--set outputs.1.eve-log.threaded=yes";

/// Number of workers, at least one.
#[derive(Clone, Copy)]
pub(crate) struct Workers(pub(crate) usize);

impl Workers {
    /// Returns the publishing command of burstline: with several workers, one log each.
    pub(crate) fn publisher(self) -> String {
        match self.0 {
            1 => "count".to_owned(),
            workers => format!("balance --workers {workers}"),
        }
    }

    /// Returns Suricata's arguments for packets of the published name.
    pub(crate) fn on_log(self, name: &str) -> String {
        match self.0 {
            1 => format!("--pcap=burst:{name} {}", self.mode()),
            workers => {
                let device = |worker| format!("--pcap=burst:{name}@{worker} ");
                (0..workers).map(device).collect::<String>() + &self.mode()
            }
        }
    }

    /// Returns Suricata's arguments for packets of the interface.
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

    /// Describes both sides.
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
