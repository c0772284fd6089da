//! `burstline bounce`.

use burstline_engine::InlineOptions;
use burstline_port::{Address, Filter, Rewrite, Touch};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::inline::inline;
use super::{JobArgs, PORT_HINT, values};

const EXAMPLES: &str = "\
Examples:
  burstline bounce xdp:eth1 xdp:eth2              from eth1 to eth2, without a copy
  burstline bounce xdp:eth1 xdp:eth2 --both --cores 2,3        both ways, a core each
  burstline bounce xdp:eth1 xdp:eth2 --both --cores 2          both ways, one core
  burstline bounce xdp:eth1 xdp:eth1 --rewrite swap            back to the sender
  burstline bounce xdp:eth1@0 xdp:eth2@3 --touch payload --poll busy
                                                  one queue to one queue, every byte is read
  burstline bounce xdp:eth1 xdp:eth2 --rewrite 02:00:00:00:00:01,02:00:00:00:00:02
  burstline bounce eth1 xdp:eth2                  the sink copies, as with all other ports
  burstline bounce trace.pcap null: --touch headers
  burstline bounce eth1 eth2 --both --inline ips              a program decides on each packet
  burstline bounce eth1 eth2 --both --inline 'ips?workers=2&open&deadline=5ms'

--touch none is what `dpdk-testpmd --forward-mode=io` does, --rewrite SOURCE,DESTINATION its `mac`,
--rewrite swap its `macswap`.";

/// Forward packets between two ports
///
/// Between two xdp: ports a packet stays in its frame. Both ports share one memory of frames, and a
/// frame goes from one port's receive ring to the other's transmit ring. With other ports, the sink
/// copies each packet. Each direction is a row of the report and a thread; with fewer --cores than
/// directions, a thread runs several. A packet that cannot be sent at once waits briefly and is
/// then counted as lost: tx_ring_full or link_down. Some senders leave TCP and UDP checksums to a
/// device, as veth pairs do, and nothing on the way adds them: TCP hangs until ethtool -K PEER tx
/// off.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct BounceArgs {
    /// The port that receives: xdp:IFACE, xdp:IFACE@QUEUE, or any other source
    #[arg(value_name = "A", value_parser = values::source, value_hint = PORT_HINT)]
    pub(crate) from: Address,

    /// The port that sends: xdp:IFACE, xdp:IFACE@QUEUE, or any other sink
    #[arg(value_name = "B", value_parser = values::sink, value_hint = PORT_HINT)]
    pub(crate) to: Address,

    /// Also forward packets from B to A
    #[arg(long)]
    pub(crate) both: bool,

    /// Change the link addresses: swap them, or set SOURCE,DESTINATION
    #[arg(long, value_name = "swap|SRC,DST", value_parser = values::rewrite)]
    pub(crate) rewrite: Option<Rewrite>,

    /// Which bytes of each packet to read: none, headers or payload
    #[arg(long, value_name = "LEVEL", default_value = "none", value_parser = touch())]
    pub(crate) touch: Touch,

    /// xdp: takes only packets that match EXPR and leaves the others to the host, counted as
    /// `passed`. Forms as for count --filter
    #[arg(long, value_name = "EXPR", value_parser = values::filter)]
    pub(crate) only: Option<Filter>,

    /// Publish the packets as NAME, and send each only after a reader's verdict: pass, drop,
    /// replace, reject, or pass its flow. workers=N: N readers share the flows, each as NAME@K. A
    /// packet without a verdict within deadline=TIME is sent (open), or lost and counted by cause
    /// (closed, the default). mode=, owner= and group= as for capture --publish
    #[arg(long, value_name = "NAME[?workers=N&open|closed&deadline=2ms]")]
    #[arg(value_parser = inline)]
    pub(crate) inline: Option<InlineOptions>,

    /// Let xdp: take packets from an interface that the host uses
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
