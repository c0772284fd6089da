//! Remedies for losses.

use super::Loss;

impl Loss {
    /// Returns what to do about it, in a sentence or two. A new cause does not compile without one.
    pub fn remedy(self) -> &'static str {
        match self {
            Self::LogFull => {
                "give the log more memory (--buffer), or the thread that reads it a core (--cores)"
            }
            Self::RxRingFull | Self::FillRingEmpty => {
                "receive faster: a core for the receive thread (--cores), --poll busy, several \
                 queues; a deeper ring (--buffer, frames= of xdp:) helps with bursts"
            }
            Self::FrameTooSmall => {
                "join no packets (ethtool -K IFACE gro off lro off), or take frame=4k"
            }
            Self::FifoOverflow | Self::DeviceMissed => {
                "give the card room: more receive descriptors (ethtool -G IFACE rx N), more \
                 queues, a core of the card's node for the receive thread"
            }
            Self::DeviceReset => "find out who restarts the interface: dmesg, ethtool -S IFACE",
            Self::DeviceErrors => "look at cable, transceiver and peer: ethtool -S IFACE",
            Self::NoMbuf => "give the device a larger pool: pool= of dpdk:",
            Self::BadDescriptor => {
                "report it: the kernel or the driver reported something impossible"
            }
            Self::Corrupt | Self::MissingSegments => {
                "burstline check FILE lists the damage, burstline recover saves the rest"
            }
            Self::Injected => "nothing: a test put it there",
            Self::LinkMismatch => "write one file for each link type: --link-types split",
            Self::TooLong => {
                "for a file take segment=1M; for an interface raise its MTU, or have senders' \
                 offloads off (ethtool -K IFACE tso off gso off)"
            }
            Self::TooShort => "look at the sender: frames have 14 bytes at least",
            Self::BadSource => "look at the sender at this port: no station has such an address",
            Self::PortSecurity => "allow the address (security=), or find who sends with it",
            Self::StormLimited => "look for a loop between ports, or allow more (storm=)",
            Self::Metered => "raise the meter of the rule, if the traffic is wanted",
            Self::Unjudged => "write --shed for this link type, or leave the source out",
            Self::ReaderOverrun => {
                "give the reader a core, the log more memory (--buffer), or read with ?lossless"
            }
            Self::DiskFull => "make room, or have a ring of files: -b filesize:KB -b files:N",
            Self::WriteError => "look at the disk (dmesg): it refused to write or to sync",
            Self::PipeClosed | Self::PipeFull => "look at the program behind the pipe",
            Self::TxRingFull => "send more slowly (--rate), or with larger rings and more queues",
            Self::LinkDown => "set the interface up: ip link set IFACE up",
            Self::TxRefused => "see whether the other end is up: ip -s link show IFACE",
            Self::TxRejected => "frames are malformed, or longer than the MTU allows",
            Self::Unconfirmed => "look at the driver: it took the packet and never gave it back",
            Self::VerdictLate => {
                "give the readers of --inline cores, more of them (workers=), or a longer deadline="
            }
            Self::NoVerdict => {
                "start a reader for each worker of --inline; with open their packets pass meanwhile"
            }
            Self::VerdictNoRoom => "give the readers of --inline cores, or a shorter deadline=",
            Self::VerdictInvalid => "look at the reader: it wrote an invalid verdict",
            Self::DroppedByVerdict | Self::RejectedByVerdict => "nothing: a reader decided so",
            Self::Filtered => "nothing, unless --filter is not what you meant",
            Self::Passed => "nothing: --only left it to the host",
            Self::VlanFiltered => "add the VLAN to the port (vlan= or trunk=), if it belongs there",
            Self::LinkLocal | Self::SamePort => "nothing: a switch does not pass it on",
            Self::Isolated => "nothing, unless the two ports should talk: isolate=",
            Self::NoDestination => "add a port that carries its VLAN",
            Self::CutOff => "nothing: --cutoff keeps the start of each flow",
            Self::Shed => "nothing: a rule of yours says so",
            Self::Expired => "nothing; a longer --keep, or more --buffer, keeps it for longer",
            Self::AfterLastFile => "nothing: -W allows that many files",
            Self::Unmapped => "name its interface in --map, if it is to be replayed",
        }
    }
}
