//! The rules of a figure, identical for every switch.

use std::fmt;

/// Rules that forward packets from one port to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rules {
    /// One rule per port.
    ByPort,
    /// A thousand rules, each for a port and this many destination addresses, a power of two.
    /// testpmd's flows differ in that address.
    ByAddresses(u32),
}

/// Rules in each direction.
const RULES: u32 = 500;
/// The first address of testpmd's flows, as seen in packets of DPDK 22.11.
const FIRST: u32 = 10 << 24 | 253 << 16;

impl Rules {
    /// Returns the rules, one per line, between ports of these names.
    pub(super) fn lines(self, ports: [&str; 2]) -> Vec<String> {
        let [a, b] = ports;
        let both = [(a, b), (b, a)].into_iter();
        let rules = both.flat_map(|(from, to)| {
            let rule = move |more: String| format!("{more}in_port={from},actions=output:{to}");
            match self {
                Self::ByPort => vec![rule("priority=1,".to_owned())],
                Self::ByAddresses(each) => {
                    (0..RULES).map(|number| rule(to_addresses(number, each))).collect()
                }
            }
        });
        rules.collect()
    }
}

/// Returns the match part of rule `number`.
fn to_addresses(number: u32, each: u32) -> String {
    let [a, b, c, d] = (FIRST + number * each).to_be_bytes();
    let bits = 32 - each.ilog2();
    format!("priority=1,ip,nw_dst={a}.{b}.{c}.{d}/{bits},")
}

impl fmt::Display for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ByPort => write!(f, "a rule for each port"),
            Self::ByAddresses(each) => {
                write!(f, "{} rules, each for a port and {each} addresses", 2 * RULES)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_of_both_directions_and_of_all_addresses() {
        let lines = Rules::ByPort.lines(["a", "b"]);
        assert_eq!(lines[1], "priority=1,in_port=b,actions=output:a");
        let lines = Rules::ByAddresses(256).lines(["a", "b"]);
        assert_eq!(lines.len(), 1000);
        assert_eq!(lines[0], "priority=1,ip,nw_dst=10.253.0.0/24,in_port=a,actions=output:b");
        assert_eq!(lines[999], "priority=1,ip,nw_dst=10.254.243.0/24,in_port=b,actions=output:a");
        let lines = Rules::ByAddresses(2).lines(["a", "b"]);
        assert_eq!(lines[1], "priority=1,ip,nw_dst=10.253.0.2/31,in_port=a,actions=output:b");
    }
}
