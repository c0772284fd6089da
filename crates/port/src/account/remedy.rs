//! Remedies for losses.

use super::Loss;

impl Loss {
    /// Returns what to do about it, in a sentence or two. A new cause does not compile without one.
    pub fn remedy(self) -> &'static str {
        match self {
            Self::LogFull => "give the log more memory (--buffer), or its reader a core (--cores)",
            Self::RxRingFull | Self::FillRingEmpty => {
                "receive faster: a core for the receive thread (--cores), --poll busy, several \
                 queues; a deeper ring (--buffer, frames= of xdp:) helps with bursts"
            }
            Self::FrameTooSmall => {
                "stop the joining of packets (ethtool -K IFACE gro off lro off), or use frame=4k"
            }
            Self::QueueAdded => "start again, or remove the queues: ethtool -L IFACE combined N",
            Self::FifoOverflow | Self::DeviceMissed => {
                "give the card more receive descriptors (ethtool -G IFACE rx N), more queues, or a \
                 core of its node for the receive thread"
            }
            Self::DeviceReset => "find out who restarts the interface: dmesg, ethtool -S IFACE",
            Self::CardLinkDown => "leave out link_down= of nicsim:, which takes the link down",
            Self::CardTooLong => "let the card take longer frames: mtu= of nicsim:",
            Self::DeviceErrors => "check cable, transceiver and peer: ethtool -S IFACE",
            Self::NoMbuf => "give the device a larger pool: pool= of dpdk:",
            Self::BadDescriptor => "report it as a bug of the kernel, its driver or the peer",
            Self::Corrupt | Self::MissingSegments => {
                "list the damage with burstline check FILE; save the rest with burstline recover"
            }
            Self::Injected => "nothing: a test injected this fault",
            Self::LinkMismatch => "write one file for each link type: --link-types split",
            Self::TooLong => {
                "for a file use segment=1M; for an interface raise its MTU, or turn off the \
                 senders' offloads (ethtool -K IFACE tso off gso off)"
            }
            Self::TooShort => "check the sender: a frame has at least 14 bytes",
            Self::BadSource => "check the sender at this port: no station has such an address",
            Self::PortSecurity => "allow the address (security=), or find out who sends from it",
            Self::StormLimited => "look for a loop between ports, or allow more (storm=)",
            Self::Metered => "raise the meter of the rule, if the traffic is wanted",
            Self::Unjudged => "write --shed for this link type, or omit the source",
            Self::ReaderOverrun => {
                "give the reader its own core, give the log more memory (--buffer), or read with \
                 ?lossless"
            }
            Self::DiskFull => "make room, or write a ring of files: -b filesize:KB -b files:N",
            Self::WriteError => "check the disk (dmesg): a write or a sync failed",
            Self::PipeClosed | Self::PipeFull => "check the program that reads the pipe",
            Self::TxRingFull => "send more slowly (--rate), or use larger rings and more queues",
            Self::LinkDown => "set the interface up: ip link set IFACE up",
            Self::TxRefused => "check whether the other end is up: ip -s link show IFACE",
            Self::TxRejected => "check the sender: frames are malformed or longer than the MTU",
            Self::Unconfirmed => "check the driver: it took the packet and never returned it",
            Self::VerdictLate => {
                "give readers of --inline cores, start more (workers=), or set a longer deadline="
            }
            Self::NoVerdict => {
                "start a reader for each worker of --inline; with open, packets pass until then"
            }
            Self::VerdictNoRoom => "give readers of --inline cores, or set a shorter deadline=",
            Self::VerdictInvalid => "check the reader: it wrote an invalid verdict",
            Self::DroppedByVerdict | Self::RejectedByVerdict => "nothing: a reader decided it",
            Self::Filtered => "nothing, unless --filter is not what you meant",
            Self::Passed => "nothing: --only left it to the host",
            Self::VlanFiltered => "add the VLAN to the port (vlan= or trunk=), if it belongs there",
            Self::LinkLocal | Self::SamePort => "nothing: a switch does not forward it",
            Self::Isolated => "nothing, unless the two ports should communicate: isolate=",
            Self::NoDestination => "add a port that carries its VLAN",
            Self::CutOff => "nothing: --cutoff keeps the start of each flow",
            Self::Shed => "nothing: one of your rules dropped it",
            Self::Expired => "nothing; a longer --keep, or more --buffer, keeps packets longer",
            Self::AfterLastFile => "nothing: -W allows that many files",
            Self::Unmapped => "to replay it, name its interface in --map",
        }
    }
}
