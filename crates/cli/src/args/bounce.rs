//! `burstline bounce`.

use burstline_port::{Address, Filter, Rewrite, Touch};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::{JobArgs, values};

const EXAMPLES: &str = "\
Examples:
  burstline bounce xdp:eth1 xdp:eth2              what eth1 receives leaves by eth2, in its frames
  burstline bounce xdp:eth1 xdp:eth2 --both --cores 2,3        both ways, a core each
  burstline bounce xdp:eth1 xdp:eth2 --both --cores 2          both ways, one core
  burstline bounce xdp:eth1 xdp:eth1 --rewrite swap            back to where it came from
  burstline bounce xdp:eth1@0 xdp:eth2@3 --touch payload --poll busy
                                                  one queue to one queue, every byte is read
  burstline bounce xdp:eth1 xdp:eth2 --rewrite 02:00:00:00:00:01,02:00:00:00:00:02
  burstline bounce eth1 xdp:eth2                  copied by the sink, as between all other ports
  burstline bounce trace.pcap null: --touch headers

--touch none is what `dpdk-testpmd --forward-mode=io` does, --rewrite SOURCE,DESTINATION its `mac`,
--rewrite swap its `macswap`.";

/// Send what comes in by one port out by another
///
/// Between two xdp: ports a packet stays where it is: one memory of frames serves both, and a
/// frame goes from the receive ring of the one to the transmit ring of the other and back. Other
/// ports lend packets, and the sink copies them. A direction is a row of the ledger and a thread;
/// with fewer --cores than directions a thread runs several. What cannot be sent on at once waits a
/// little, and is then lost, by name: tx_ring_full, link_down. TCP and UDP checksums that are left
/// to a device, as the other end of a veth pair leaves them, are added by nobody on the way: TCP
/// hangs until ethtool -K PEER tx off.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct BounceArgs {
    /// Where packets come in: xdp:IFACE, xdp:IFACE@QUEUE, or any other source
    #[arg(value_name = "A", value_parser = values::source)]
    pub(crate) from: Address,

    /// Where they leave: xdp:IFACE, xdp:IFACE@QUEUE, or any other sink
    #[arg(value_name = "B", value_parser = values::sink)]
    pub(crate) to: Address,

    /// And what comes in by B leaves by A
    #[arg(long)]
    pub(crate) both: bool,

    /// Change the link addresses: swap them, or set SOURCE,DESTINATION
    #[arg(long, value_name = "swap|SRC,DST", value_parser = values::rewrite)]
    pub(crate) rewrite: Option<Rewrite>,

    /// Which bytes of each packet to read: none, headers or payload
    #[arg(long, value_name = "LEVEL", default_value = "none", value_parser = touch())]
    pub(crate) touch: Touch,

    /// xdp: takes only packets that EXPR wants, and leaves the host the others, counted as
    /// `passed`. Forms as for count --filter
    #[arg(long, value_name = "EXPR", value_parser = values::filter)]
    pub(crate) only: Option<Filter>,

    /// Let xdp: take packets from an interface that the host lives on
    #[arg(long)]
    pub(crate) steal: bool,

    #[command(flatten)]
    pub(crate) job: JobArgs,
}

fn touch() -> impl TypedValueParser<Value = Touch> {
    const LEVELS: [Touch; 3] = [Touch::None, Touch::Headers, Touch::Payload];
    PossibleValuesParser::new(LEVELS.map(Touch::name)).map(|name| {
        let level = LEVELS.into_iter().find(|level| level.name() == name);
        level.unwrap_or_default()
    })
}
