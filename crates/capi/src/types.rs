//! Types shared with C: statuses, constants and structs, with their C layout.
//!
//! These comments become those of `include/burstline.h`; they are for readers of C.

use std::ffi::c_char;
use std::mem::{offset_of, size_of};

use burstline_log::{Desc, FACTS_BYTES};

/// Raised when a program compiled against an older header could misunderstand this library.
/// It is the number at the end of the shared library's name.
pub const ABI_VERSION: u32 = 0;

/// burstline_options.policy: a reader that is too slow misses packets, and counts them.
pub const LOSSY: u32 = 0;
/// burstline_options.policy: the publisher waits for this reader, where it allows that.
pub const LOSSLESS: u32 = 1;

/// burstline_options.start: with what is published next.
pub const FROM_NOW: u32 = 0;
/// burstline_options.start: with the oldest packet that the publisher still has.
pub const FROM_OLDEST: u32 = 1;

/// burstline_options.trust: packets are read where the publisher put them. The program vouches for
/// each publisher of its user and of root: the publisher changes no byte of a burst that is held.
/// One that does can do what a bad pointer does. Publishers of other users are refused. It is 0,
/// so that a program built with an older header does what it did.
pub const TRUST_OWN_USER: u32 = 0;
/// burstline_options.trust: packets of every publisher are copied and checked. The default.
pub const TRUST_NOBODY: u32 = 1;
/// burstline_options.trust: packets of every publisher are read in place, and the program vouches
/// for each publisher.
pub const TRUST_ANYBODY: u32 = 2;

/// burstline_options.restarts: when a writer was stopped or killed, go on with the next one.
pub const FOLLOW: u32 = 0;
/// burstline_options.restarts: the log is over with its writer.
pub const NO_FOLLOW: u32 = 1;

/// burstline_options.verdicts: the reader gives verdicts, and packets wait for them.
pub const VERDICTS: u32 = 1;

// The codes of `Verdict::of_code`, as a test checks.
/// burstline_verdict(): the packet goes on as it is.
pub const VERDICT_PASS: u32 = 1;
/// burstline_verdict(): the packet ends here.
pub const VERDICT_DROP: u32 = 2;
/// burstline_verdict(): the packet ends here, and its sender gets an answer.
pub const VERDICT_REJECT: u32 = 4;
/// burstline_verdict(): the packet goes on, and so do all later ones of its flow, unseen.
pub const VERDICT_PASS_FLOW: u32 = 5;

/// burstline_options.log: all logs of the name, in turn.
pub const ALL_LOGS: u32 = u32::MAX;

/// A timeout without end.
pub const FOREVER: u64 = u64::MAX;

/// burstline_publish_options.hash: packets have none.
pub const HASH_NONE: u32 = 0;
/// burstline_publish_options.hash: of addresses, ports and protocol, the same for both directions.
pub const HASH_FIVE_TUPLE: u32 = 2;

/// A mark of a packet: it was cut short, lies far from its neighbours in time, or packets were lost
/// just before it. A struct burstline_facts stands behind it.
pub const FLAG_FACTS: u32 = 1;
/// A mark of a packet: the kernel left its transport checksum to a device.
pub const FLAG_PARTIAL_CHECKSUM: u32 = 2;
/// A mark of a packet: several packets of the wire that GRO or LRO merged into one.
pub const FLAG_MERGED: u32 = 4;
/// A mark of a packet: sent by the capturing host, not received.
pub const FLAG_OUTGOING: u32 = 8;
/// A mark of a packet: the device or file says that it arrived damaged.
pub const FLAG_DAMAGED: u32 = 16;

/// What a function returns: 0 or more if it did what it should, less than 0 if not. What went wrong
/// is said by burstline_error_text().
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Status {
    /// Done.
    Ok = 0,
    /// There is nothing now: no packet within the timeout, no name for the port.
    None = 1,
    /// The log is over, and read to its end.
    End = 2,
    /// An argument is NULL, misaligned or out of its range.
    ErrorArgument = -1,
    /// The reader is closed, or was never open.
    ErrorClosed = -2,
    /// The burst is not held: it was released, or comes from another reader.
    ErrorNotHeld = -3,
    /// Every segment of the window is held: release a burst first.
    ErrorWindow = -4,
    /// Another thread is in a call with this reader.
    ErrorBusy = -5,
    /// Nobody publishes the name.
    ErrorAbsent = -6,
    /// The publisher is not to be trusted, or does not let this reader in.
    ErrorRefused = -7,
    /// The system, or what the publisher sent, is at fault.
    ErrorSystem = -8,
    /// A fault of the library itself, stopped at its border. The reader can only be closed.
    ErrorPanic = -9,
}

/// How to read. BURSTLINE_OPTIONS_INIT has the values that one wants most of the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Options {
    /// sizeof(struct burstline_options) of the header that the program was compiled with.
    pub size: u32,
    /// How many segments may be held at once, in [1, 8]; 0 is 1. A segment has many bursts.
    pub window: u32,
    /// BURSTLINE_LOSSY or BURSTLINE_LOSSLESS.
    pub policy: u32,
    /// BURSTLINE_FROM_NOW or BURSTLINE_FROM_OLDEST.
    pub start: u32,
    /// BURSTLINE_TRUST_NOBODY, BURSTLINE_TRUST_OWN_USER or BURSTLINE_TRUST_ANYBODY.
    pub trust: u32,
    /// BURSTLINE_FOLLOW or BURSTLINE_NO_FOLLOW.
    pub restarts: u32,
    /// Which log of the name, from 0, or BURSTLINE_ALL_LOGS. A publisher that receives on several
    /// cores has a log for each.
    pub log: u32,
    /// Whether the reader gives verdicts, to a publisher that waits for them (burstline bounce
    /// --inline): 0, or BURSTLINE_VERDICTS. One reader of a log can.
    pub verdicts: u32,
}

/// One packet's entry in the worklist: two words, read by the functions burstline_desc_*().
///
/// place: bits 0 to 31 offset from base, 32 to 39 port, 40 to 44 flags, 45 to 63 length.
/// flow: bits 0 to 31 flow hash, 32 to 63 time after base_time_ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct DescWords {
    /// Offset, port, flags, length.
    pub place: u64,
    /// Flow hash and time.
    pub flow: u64,
}

/// What is true of few packets. Stands behind the packet's bytes, at the next multiple of 16.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct FactsWords {
    /// When the packet arrived, in ns since 1970.
    pub time_ns: u64,
    /// Packets that its port lost just before it.
    pub drops_before: u64,
    /// Its length on the wire, in bytes without FCS.
    pub original_length: u32,
    /// Not used.
    pub reserved: [u32; 3],
}

/// A run of packets of one log. The bytes and the worklist are read-only, and do not change until
/// the burst is released or its reader closed.
///
/// The packets lie back to back: each starts where burstline_desc_end() of the one before says.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct BurstView {
    /// What offsets count from.
    pub base: *const u8,
    /// The worklist as it lies in memory: the newest packet first, the oldest last. See
    /// burstline_desc_at().
    pub worklist: *const DescWords,
    /// Bytes that may be read from base on; packets and facts lie inside.
    pub bytes: u64,
    /// How many packets.
    pub count: u32,
    /// Which log of the name, from 0.
    pub log: u32,
    /// What times count from, in ns since 1970.
    pub base_time_ns: u64,
    /// The number of the oldest packet, from 0 in each log of each epoch.
    pub first_packet: u64,
    /// Which publisher of the name this is of: a later one has a larger number.
    pub epoch: u64,
    /// The library's.
    pub ticket: u64,
}

/// What a reader has seen so far, over all logs and all writers that it has read. When the log is
/// over, offered = delivered + missed, or packets are unaccounted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Statistics {
    /// In: sizeof(struct burstline_statistics). Out: how many bytes of it the library has filled.
    pub size: u32,
    /// Logs that it reads.
    pub logs: u32,
    /// Packets published since the reader's start, by the writers' own count.
    pub offered: u64,
    /// Packets in the bursts that it was given.
    pub delivered: u64,
    /// Packets that the writer took away before they were read: an exact count.
    pub missed: u64,
    /// How often the writer had lapped it.
    pub laps: u64,
    /// Of the missed, those that contradicted themselves (BURSTLINE_TRUST_NOBODY).
    pub torn: u64,
    /// Packets published that have yet to be read.
    pub lag: u64,
    /// How often a writer was stopped or killed. What passed before the next one is nobody's, and
    /// not counted.
    pub writer_down: u64,
    /// Which publisher of the name was read last: a later one has a larger number.
    pub epoch: u64,
    /// The publisher's process; 0 if that is of another process namespace.
    pub writer_pid: u32,
    /// Lossless readers that the publisher has lost patience with: lossy from then on.
    pub demoted: u32,
    /// Bursts that are not released.
    pub held: u32,
    /// 1 while there is no writer and the next one is waited for.
    pub is_waiting: u32,
}

/// An interface that packets came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct PortName {
    /// What its packets start with. Source: LINKTYPE_ values of libpcap, 1 is Ethernet.
    pub link_type: u32,
    /// Its name in UTF-8, ended by a 0.
    pub name: [c_char; 60],
}

/// How to publish. BURSTLINE_PUBLISH_OPTIONS_INIT has the values that one wants most of the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct PublishOptions {
    /// sizeof(struct burstline_publish_options) of the header that the program was compiled with.
    pub size: u32,
    /// Who may read, like a file's mode, in [0, 0777].
    pub mode: u32,
    /// Memory of the log, in whole segments of 256 KiB: from 2 MiB to 64 GiB.
    pub log_bytes: u64,
    /// What the flow hash of each packet is made from: BURSTLINE_HASH_NONE or
    /// BURSTLINE_HASH_FIVE_TUPLE.
    pub hash: u32,
    /// Whether readers that ask for it may hold the writer up: 0 or 1.
    pub lossless: u32,
    /// How long burstline_write() waits for readers that hold the log full, in ms, in [0, 60000].
    pub wait_ms: u32,
    /// What packets start with. Source: LINKTYPE_ values of libpcap, 1 is Ethernet.
    pub link_type: u32,
}

/// A packet to be published. Zeros but for its bytes and length are what one wants most of the
/// time.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PacketToWrite {
    /// Its bytes, from the link header on, without FCS. They are copied.
    pub bytes: *const u8,
    /// How many, in [1, 131072].
    pub length: u32,
    /// Its length on the wire, without FCS; less than length, such as 0: as many as there are.
    pub original_length: u32,
    /// When it arrived, in ns since 1970; 0: now.
    pub time_ns: u64,
    /// Packets that its port lost just before it.
    pub drops_before: u64,
    /// Its port, in [0, 256): see burstline_writer_port().
    pub port: u32,
    /// BURSTLINE_FLAG_*, without BURSTLINE_FLAG_FACTS.
    pub flags: u32,
}

/// What became of the packets that a writer was given: offered = published + full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct WriterStatistics {
    /// In: sizeof(struct burstline_writer_statistics). Out: how many bytes the library has filled.
    pub size: u32,
    /// Readers of other processes, at this moment.
    pub readers: u32,
    /// Packets that burstline_write() was given.
    pub offered: u64,
    /// Packets that are published, whether or not somebody reads them.
    pub published: u64,
    /// Packets that the log had no room for.
    pub full: u64,
    /// Which publisher of the name this is: the next one has a larger number.
    pub epoch: u64,
}

/// Where a packet goes: addresses, ports and protocol, in its own direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Flow {
    /// Address of the sender; an IPv4 address stands in the last 4 bytes, behind ::ffff.
    pub source: [u8; 16],
    /// Address of the receiver, likewise.
    pub destination: [u8; 16],
    /// Port of the sender; 0 where has_ports is 0.
    pub source_port: u16,
    /// Port of the receiver, likewise.
    pub destination_port: u16,
    /// IP protocol number.
    pub protocol: u8,
    /// 4 or 6.
    pub version: u8,
    /// Whether the packet shows ports: 0 or 1.
    pub has_ports: u8,
    /// Not used.
    pub reserved: u8,
    /// BURSTLINE_HASH_FIVE_TUPLE of it: the same for both directions.
    pub hash: u32,
}

/// Publishes packets under a name. Its pointer is only a number: nothing is there to look at.
#[derive(Debug)]
pub struct LogWriter {
    _nothing: (),
}

/// Reads what a publisher publishes. Its pointer is only a number: nothing is there to look at.
#[derive(Debug)]
pub struct Reader {
    _nothing: (),
}

const _: () = assert!(size_of::<Options>() == 32);
const _: () = assert!(size_of::<DescWords>() == size_of::<Desc>());
const _: () = assert!(size_of::<FactsWords>() == FACTS_BYTES);
const _: () = assert!(size_of::<BurstView>() == 64 && offset_of!(BurstView, ticket) == 56);
const _: () = assert!(size_of::<Statistics>() == 88);
const _: () = assert!(size_of::<PortName>() == 64);
const _: () = assert!(size_of::<PublishOptions>() == 32);
const _: () = assert!(size_of::<PacketToWrite>() == 40);
const _: () = assert!(size_of::<WriterStatistics>() == 40);
const _: () = assert!(size_of::<Flow>() == 44 && offset_of!(Flow, hash) == 40);

#[cfg(all(test, not(miri)))]
mod tests {
    use burstline_log::Verdict;

    use super::*;

    #[test]
    fn verdicts_have_the_codes_of_the_log() {
        for (code, verdict) in [
            (VERDICT_PASS, Verdict::Pass),
            (VERDICT_DROP, Verdict::Drop),
            (VERDICT_REJECT, Verdict::Reject),
            (VERDICT_PASS_FLOW, Verdict::PassFlow),
        ] {
            assert_eq!(Verdict::of_code(code), Some(verdict));
        }
        assert_eq!(Verdict::of_code(3), None, "a replacement needs its bytes");
    }
}
