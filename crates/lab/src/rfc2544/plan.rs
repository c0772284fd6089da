//! The plan of a test: what to test, and how.

use std::time::Duration;

use burstline_engine::PollMode;
use burstline_port::Address;
use burstline_sys::affinity::CoreId;
use serde::Deserialize;

/// Duration of a trial. Source: RFC 2544, section 24.
pub const RFC_TRIAL: Duration = Duration::from_secs(60);

/// Default ports of the tester, on its own two cables.
const TX: &str = "xdp:v0";
const RX: &str = "xdp:w0?frames=16384";

/// One test. Source: RFC 2544, sections 26.1 to 26.4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Test {
    /// The highest rate without loss.
    Throughput,
    /// The latency at that rate.
    Latency,
    /// The loss from the highest rate down.
    Loss,
    /// The longest burst without loss.
    BackToBack,
    /// A million packets at half the throughput; not part of RFC 2544.
    Half,
}

impl Test {
    /// The tests of the RFC.
    pub const RFC: [Self; 4] = [Self::Throughput, Self::Latency, Self::Loss, Self::BackToBack];

    /// Returns the word in scenario files and flags.
    pub fn name(self) -> &'static str {
        match self {
            Self::Throughput => "throughput",
            Self::Latency => "latency",
            Self::Loss => "loss",
            Self::BackToBack => "back-to-back",
            Self::Half => "half",
        }
    }

    /// Returns all tests.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::RFC.into_iter().chain([Self::Half])
    }
}

/// The plan: `[rfc2544]` of a scenario.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Plan {
    /// The tests.
    pub tests: Vec<Test>,
    /// Precision of the throughput search in per cent: 0.01 to 50.
    pub resolution_percent: f64,
    /// Number of flows to send, at least 1.
    pub flows: u32,
    /// Destination MAC address, for devices that check it.
    pub dst_mac: Option<String>,
    /// Whether the device may rewrite headers. Then a packet with valid checksums is intact.
    #[serde(rename = "checksums")]
    pub may_rewrite: bool,
    /// How the receiver waits for packets.
    #[serde(skip)]
    pub poll: PollMode,
    /// Cores of the tester, the sender's first; if empty, they are chosen by the job.
    #[serde(skip)]
    pub tester_cores: Vec<CoreId>,
    /// Port to send by; `None` for the tester's own cable.
    #[serde(skip)]
    pub tx: Option<Address>,
    /// Port to receive by; `None` for the tester's own cable.
    #[serde(skip)]
    pub rx: Option<Address>,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            tests: Test::RFC.to_vec(),
            resolution_percent: 1.0,
            flows: 1,
            dst_mac: None,
            may_rewrite: false,
            poll: PollMode::default(),
            tester_cores: Vec::new(),
            tx: None,
            rx: None,
        }
    }
}

impl Plan {
    /// Returns whether a test is selected.
    pub fn wants(&self, test: Test) -> bool {
        self.tests.contains(&test)
    }

    /// Returns whether a selected test needs the throughput.
    pub fn needs_throughput(&self) -> bool {
        [Test::Throughput, Test::Latency, Test::Half].into_iter().any(|test| self.wants(test))
    }

    /// Returns the port to send by.
    pub fn tx(&self) -> Address {
        self.tx.clone().unwrap_or_else(|| known(TX))
    }

    /// Returns the port to receive by.
    pub fn rx(&self) -> Address {
        self.rx.clone().unwrap_or_else(|| known(RX))
    }
}

fn known(address: &str) -> Address {
    address.parse().expect("a test reads it")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::parse;

    const GOOD: &str = "name = \"a\"\ntitle = \"t\"\nabout = \"x\"\nwork = \"rfc2544\"\n\
                        contenders = [\"testpmd\"]\nsizes = [64, 9018]\n";

    #[test]
    fn a_plan_is_read_and_has_defaults() {
        let plan = parse(GOOD).unwrap().rfc2544;
        assert_eq!((plan.tests.len(), plan.tx().target(), plan.rx().target()), (4, "v0", "w0"));
        let more = "[rfc2544]\ntests = [\"half\"]\nflows = 7\nchecksums = true\n";
        let plan = parse(&format!("{GOOD}{more}")).unwrap().rfc2544;
        assert!(plan.wants(Test::Half) && !plan.wants(Test::Loss) && plan.may_rewrite);
        assert_eq!((plan.flows, plan.resolution_percent), (7, 1.0));
        let said =
            parse(&format!("{GOOD}[rfc2544]\ntests = [\"speed\"]\n")).unwrap_err().to_string();
        assert!(said.contains("unknown variant `speed`, expected one of `throughput`"), "{said}");
        let other = GOOD.replace("rfc2544", "bounce").replace("9018", "1518");
        let said = parse(&format!("{other}[rfc2544]\nflows = 1\n")).unwrap_err().to_string();
        assert!(said.contains("nothing: only the work rfc2544 has a plan"), "{said}");
    }
}
