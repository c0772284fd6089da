//! What the contenders say at their end.

use serde_json::Value;

/// What `burstline --json` says, its ledger checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Ours {
    /// Packets that reached the interface, by a count of the kernel's or of the XDP program's.
    pub offered: u64,
    /// Packets that were counted or written.
    pub delivered: u64,
    /// What became of the others, as it says it.
    pub lost: String,
    /// Wall time of the receive thread's polls that found packets, in s.
    pub busy_seconds: f64,
    /// Processor time of the job, all threads, in s.
    pub cpu_seconds: f64,
    /// How long the job ran, in s.
    pub elapsed_seconds: f64,
}

impl Ours {
    /// Reads its last line, and checks that it accounts for all of `injected` frames.
    ///
    /// # Errors
    /// There is no such line, it names an error, or the ledger does not close.
    pub fn parse(said: &str, injected: u64) -> Result<Self, String> {
        let last = said.lines().next_back().unwrap_or_default();
        let json: Value = serde_json::from_str(last).map_err(|_| format!("no report: {said}"))?;
        let total = &json["total"];
        let count = |key: &str| total[key].as_i64().ok_or_else(|| format!("no {key}: {last}"));
        let number = |value: &Value| value.as_f64().unwrap_or_default();
        let (offered, unaccounted) = (count("offered")? as u64, count("unaccounted")?);
        let has_errors = json["errors"].as_array().is_none_or(|errors| !errors.is_empty());
        if unaccounted != 0 || has_errors {
            return Err(format!("burstline: {unaccounted} packets unaccounted for: {last}"));
        }
        if offered != injected {
            return Err(format!("burstline saw {offered} of {injected} injected frames: {last}"));
        }
        Ok(Self {
            offered,
            delivered: count("delivered")? as u64,
            lost: total["lost"].to_string(),
            busy_seconds: number(&json["stages"][0]["busy_s"]),
            cpu_seconds: number(&json["cpu"]["user_s"]) + number(&json["cpu"]["system_s"]),
            elapsed_seconds: number(&json["elapsed_s"]),
        })
    }
}

/// What `dpdk-testpmd` says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Testpmd {
    /// Packets that it received.
    pub received: u64,
    /// Cycles of the time stamp counter in polls that found packets, and in freeing these: for
    /// each packet.
    pub cycles: f64,
}

impl Testpmd {
    /// Reads the totals at the end.
    ///
    /// # Errors
    /// They are not there.
    pub fn parse(said: &str) -> Result<Self, String> {
        let totals = said.rsplit_once("Accumulated forward statistics");
        let find = |key: &str| totals.and_then(|(_, rest)| number_after(rest, key));
        match (find("RX-packets:"), find("CPU cycles/packet=")) {
            (Some(received), cycles) => {
                Ok(Self { received: received as u64, cycles: cycles.unwrap_or_default() })
            }
            _ => Err(format!("dpdk-testpmd has no totals: {said}")),
        }
    }
}

/// What `tcpdump -w` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tcpdump {
    /// Packets that it wrote.
    pub captured: u64,
}

impl Tcpdump {
    /// Reads the summary.
    ///
    /// # Errors
    /// It is not there.
    pub fn parse(said: &str) -> Result<Self, String> {
        let captured = number_before(said, " packets captured");
        let captured = captured.ok_or_else(|| format!("tcpdump has no summary: {said}"))?;
        Ok(Self { captured })
    }
}

/// What `dumpcap -w` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dumpcap {
    /// Packets that it wrote.
    pub captured: u64,
}

impl Dumpcap {
    /// Reads the summary.
    ///
    /// # Errors
    /// It is not there.
    pub fn parse(said: &str) -> Result<Self, String> {
        let captured = number_after(said, "received/dropped on interface 'v1':");
        let captured = captured.ok_or_else(|| format!("dumpcap has no summary: {said}"))?;
        Ok(Self { captured: captured as u64 })
    }
}

/// The number behind the first `key`.
fn number_after(text: &str, key: &str) -> Option<f64> {
    let (_, rest) = text.split_once(key)?;
    let rest = rest.trim_start();
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// The number in front of the first `key`.
fn number_before(text: &str, key: &str) -> Option<u64> {
    text.split_once(key)?.0.split_whitespace().next_back()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ledger_that_does_not_close_is_an_error() {
        let said = |offered: u64, unaccounted: i64| {
            format!(
                "{{\"interval\":1}}\n{{\"elapsed_s\":2.0,\"errors\":[],\"total\":{{\"offered\":\
                 {offered},\"delivered\":9,\"lost\":{{\"x\":1}},\"unaccounted\":{unaccounted}}},\
                 \"stages\":[{{\"busy_s\":0.5}}],\"cpu\":{{\"user_s\":0.25,\"system_s\":0.5}}}}\n"
            )
        };
        let ours = Ours::parse(&said(10, 0), 10).unwrap();
        assert_eq!((ours.delivered, ours.lost.as_str()), (9, "{\"x\":1}"));
        assert_eq!((ours.busy_seconds, ours.cpu_seconds), (0.5, 0.75));
        assert!(Ours::parse(&said(10, 1), 10).unwrap_err().contains("1 packets unaccounted"));
        assert!(Ours::parse(&said(10, 0), 11).unwrap_err().contains("saw 10 of 11"));
        assert!(Ours::parse("killed", 1).is_err());
    }

    #[test]
    fn the_rivals_summaries() {
        let testpmd = "Forward statistics for port 0\n RX-packets: 9 RX-dropped: 1\n\
            +++ Accumulated forward statistics for all ports+++\n  RX-packets: 12   RX-dropped: 0\n\
            CPU cycles/packet=635.50 (total cycles=7626 / total rxonly packets=12) at 2450 MHz\n";
        let expected = Testpmd { received: 12, cycles: 635.5 };
        assert_eq!(Testpmd::parse(testpmd), Ok(expected));
        let tcpdump = "listening on v1\n1500 packets captured\n1502 packets received by filter\n";
        assert_eq!(Tcpdump::parse(tcpdump), Ok(Tcpdump { captured: 1500 }));
        let dumpcap = "Capturing on 'v1'\nPackets captured: 7\n\
            Packets received/dropped on interface 'v1': 7/0 (pcap:0/dumpcap:0/flushed:0) (100.0%)";
        assert_eq!(Dumpcap::parse(dumpcap), Ok(Dumpcap { captured: 7 }));
        assert!(Testpmd::parse("").is_err() && Tcpdump::parse("").is_err());
        assert!(Dumpcap::parse("").is_err());
    }
}
