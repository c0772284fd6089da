//! The exported functions for publishing, and for asking about packets. As in `exports`, each is a
//! single call of `border` (B1) and relies on the same obligations of C.

#![expect(clippy::missing_safety_doc, reason = "it is said once, in exports")]

use std::cell::RefCell;
use std::ffi::c_char;
use std::mem::size_of;
use std::ptr;
use std::slice;

use burstline_log::{Flags, Meta};
use burstline_wire::flow::{FlowKey, IpVersion};
use burstline_wire::hash::{FlowHasher, HashKind};
use burstline_wire::headers::{self, LinkType};

use crate::border::{self, Fault, border};
use crate::exports::{check, fill, string};
use crate::types::{
    FLAG_FACTS, Flow, LogWriter, PacketToWrite, PublishOptions, Status, WriterStatistics,
};
use crate::writers::{self, Writing};

thread_local! {
    /// Remembers the first fragments of datagrams that this thread has queried.
    static HASHER: RefCell<FlowHasher> = RefCell::new(FlowHasher::new(HashKind::FiveTuple));
}

/// The longest packet that a log takes.
const LENGTH_MAX: u32 = 128 << 10;

/// Publishes a log as name: a word, or the path of a socket with a slash in it. options may be
/// NULL: BURSTLINE_PUBLISH_OPTIONS_INIT. On success *writer is one to be ended with
/// burstline_finish(), else NULL.
///
/// What goes wrong with a writer is said by burstline_error_text(NULL). It starts a thread, which
/// lets readers in.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn burstline_publish(
    name: *const c_char,
    options: *const PublishOptions,
    writer: *mut *mut LogWriter,
) -> Status {
    border(Status::ErrorPanic, || {
        told((|| {
            // SAFETY: the header's contract; NULL and misalignment are checked.
            unsafe { fill(writer, "writer", ptr::null_mut())? };
            border::can_stop_panics()?;
            // SAFETY: the pointers from C are NULL or satisfy the header's contract; both are
            // checked.
            let (name, options) = unsafe { (string(name)?, read(options)?) };
            let handle = writers::add(Writing::open(name, &options)?);
            // SAFETY: `writer` was checked and filled above, and C lends it during the call.
            unsafe { fill(writer, "writer", handle)? };
            Ok(Status::Ok)
        })())
    })
}

/// Says what a port stands for, before its first packet: what its packets start with, and its name,
/// of up to 58 bytes. Ports that nothing was said of have the link type of the options.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn burstline_writer_port(
    writer: *mut LogWriter,
    port: u32,
    link_type: u32,
    name: *const c_char,
) -> Status {
    border(Status::ErrorPanic, || {
        // SAFETY: a string or NULL, which is checked.
        let named = unsafe { string(name) }.and_then(|name| {
            let number = u8::try_from(port);
            let number =
                number.map_err(|_| Fault::argument(format!("port {port}: must be 0-255")))?;
            let link = u16::try_from(link_type);
            let link =
                link.map_err(|_| Fault::argument(format!("link_type {link_type}: at most 65535")))?;
            writers::with(writer, |writing| {
                writing.name_port(number, link, name);
                Ok(Status::Ok)
            })
        });
        told(named)
    })
}

/// Copies count packets into the log and publishes them together. Says in *written, which may be
/// NULL, how many were published.
///
/// BURSTLINE_STATUS_NONE: the log was full for as long as options.wait_ms, because a lossless
/// reader holds it; the packets from *written on are counted as full. An error: nothing of packet
/// *written or a later one was looked at. One thread at a time. Costs no system call, but to wake
/// readers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn burstline_write(
    writer: *mut LogWriter,
    packets: *const PacketToWrite,
    count: u64,
    written: *mut u64,
) -> Status {
    border(Status::ErrorPanic, || {
        told((|| {
            if !written.is_null() {
                // SAFETY: the header's contract; misalignment is checked.
                unsafe { fill(written, "written", 0)? };
            }
            check(packets, "packets")?;
            let mut done = 0;
            let status = writers::with(writer, |writing| {
                // SAFETY: `packets` points to `count` packets, which C lends during the call.
                let outcome = unsafe { write_each(writing, packets, count, &mut done) };
                writing.publish();
                outcome
            });
            if !written.is_null() {
                // SAFETY: it was checked and filled above, and C lends it during the call.
                unsafe { fill(written, "written", done)? };
            }
            status
        })())
    })
}

/// Says in *statistics what became of the packets so far. statistics->size must be
/// sizeof(struct burstline_writer_statistics) before the call. One thread at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn burstline_writer_account(
    writer: *mut LogWriter,
    statistics: *mut WriterStatistics,
) -> Status {
    border(Status::ErrorPanic, || {
        told((|| {
            check(statistics, "statistics")?;
            // SAFETY: the header's contract, and the check above.
            let theirs = unsafe { ptr::addr_of!((*statistics).size).read() };
            let ours = size_of::<WriterStatistics>() as u32;
            if theirs < ours {
                let text = format!("statistics.size is {theirs}: set it to its sizeof, {ours}");
                return Err(Fault::argument(text));
            }
            let found = writers::with(writer, |writing| Ok(writing.statistics()))?;
            // SAFETY: theirs is at least as large as ours.
            unsafe { fill(statistics, "statistics", found)? };
            Ok(Status::Ok)
        })())
    })
}

/// Ends a writer: readers get what was published, and then BURSTLINE_STATUS_END. Waits up to 1 s
/// for readers to come to the end. Its pointer is never given again. NULL is nothing to end, and
/// fine.
#[unsafe(no_mangle)]
pub extern "C" fn burstline_finish(writer: *mut LogWriter) -> Status {
    border(Status::ErrorPanic, || match writer.is_null() {
        true => Status::Ok,
        false => told(writers::finish(writer).map(|()| Status::Ok)),
    })
}

/// Says in *flow where a packet goes: length bytes from the link header on, which starts as
/// link_type says. BURSTLINE_STATUS_NONE: it is not IP, or too short to say; *flow is zeros.
///
/// Any thread may call, with any bytes. Costs some tens of ns; the hash of the worklist is cheaper.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn burstline_packet_flow(
    link_type: u32,
    bytes: *const u8,
    length: u64,
    flow: *mut Flow,
) -> Status {
    border(Status::ErrorPanic, || {
        told((|| {
            // SAFETY: the header's contract; NULL and misalignment are checked.
            unsafe { fill(flow, "flow", Flow::NONE)? };
            check(bytes, "bytes")?;
            if length > LENGTH_MAX.into() {
                let text = format!("length is {length}: it must be from 0 to {LENGTH_MAX}");
                return Err(Fault::argument(text));
            }
            // SAFETY: C lends `length` bytes during the call; NULL is checked.
            let bytes = unsafe { slice::from_raw_parts(bytes, length as usize) };
            let link = LinkType(u16::try_from(link_type).unwrap_or(u16::MAX));
            let Some(found) = Flow::of(link, bytes) else { return Ok(Status::None) };
            // SAFETY: it was checked and filled above, and C lends it during the call.
            unsafe { fill(flow, "flow", found)? };
            Ok(Status::Ok)
        })())
    })
}

/// Returns the status of an outcome, and stores an error's text for this thread.
fn told(outcome: Result<Status, Fault>) -> Status {
    outcome.unwrap_or_else(|Fault { status, text }| {
        border::remember(text);
        status
    })
}

/// Reads options of this version, or of a newer one without new requests.
///
/// # Safety
/// `options` is null or points to as many bytes as its size says.
unsafe fn read(options: *const PublishOptions) -> Result<PublishOptions, Fault> {
    if options.is_null() {
        return Ok(PublishOptions::default());
    }
    check(options, "options")?;
    // SAFETY: the header's contract, and the check above; every version starts with the size.
    let size = unsafe { ptr::addr_of!((*options).size).read() };
    let ours = size_of::<PublishOptions>() as u32;
    if size != ours {
        let text = format!(
            "options.size is {size} and not {ours}: start from BURSTLINE_PUBLISH_OPTIONS_INIT, or \
             use the libburstline of your header"
        );
        return Err(Fault::argument(text));
    }
    // SAFETY: it is as large as ours, as just checked.
    Ok(unsafe { options.read() })
}

/// Appends packets and counts them in `done`.
///
/// # Safety
/// `packets` points to `count` packets, and each of them to as many bytes as it says, or to NULL.
unsafe fn write_each(
    writing: &mut Writing,
    packets: *const PacketToWrite,
    count: u64,
    done: &mut u64,
) -> Result<Status, Fault> {
    let now_ns = burstline_sys::clock::realtime_ns();
    let mut until = None;
    for index in 0..count {
        // SAFETY: `index` is below `count`, and each of these packets may be read.
        let packet = unsafe { packets.add(index as usize).read() };
        let PacketToWrite { bytes, length, port, flags, .. } = packet;
        if !(1..=LENGTH_MAX).contains(&length) || bytes.is_null() {
            let text = format!(
                "packets[{index}] has {length} bytes at {bytes:p}: must be 1-{LENGTH_MAX}, not NULL"
            );
            return Err(Fault::argument(text));
        }
        let (Ok(port), Some(flags)) = (u8::try_from(port), known(flags)) else {
            let text = format!("packets[{index}] has port {port} and flags {flags:#x}");
            return Err(Fault::argument(text));
        };
        // SAFETY: C lends `length` bytes; NULL and the length are checked.
        let bytes = unsafe { slice::from_raw_parts(bytes, length as usize) };
        let time_ns = if packet.time_ns == 0 { now_ns } else { packet.time_ns };
        let meta = Meta {
            drops_before: packet.drops_before,
            original_length: packet.original_length.max(length),
            flags,
            ..Meta::new(time_ns, length, port)
        };
        if !writing.append(bytes, meta, &mut until) {
            // Keep the order: appending later packets would hide the gap.
            writing.give_up(count - index - 1);
            return Ok(Status::None);
        }
        *done += 1;
    }
    Ok(Status::Ok)
}

/// Returns the flags if C may set all of them.
fn known(flags: u32) -> Option<Flags> {
    let all = [Flags::PARTIAL_CHECKSUM, Flags::MERGED, Flags::OUTGOING, Flags::DAMAGED];
    let is_set = |flag: &Flags| flags & u32::from(flag.bits()) != 0;
    let found = all.into_iter().filter(is_set).fold(Flags::NONE, Flags::union);
    let is_whole = u32::from(found.bits()) == flags && flags & FLAG_FACTS == 0;
    is_whole.then_some(found)
}

impl Default for PublishOptions {
    /// The values of `BURSTLINE_PUBLISH_OPTIONS_INIT`.
    fn default() -> Self {
        Self {
            size: size_of::<Self>() as u32,
            mode: 0o600,
            log_bytes: 16 << 20,
            hash: crate::types::HASH_FIVE_TUPLE,
            lossless: 0,
            wait_ms: 100,
            link_type: 1,
        }
    }
}

impl Flow {
    /// One that says nothing.
    const NONE: Self = Self {
        source: [0; 16],
        destination: [0; 16],
        source_port: 0,
        destination_port: 0,
        protocol: 0,
        version: 0,
        has_ports: 0,
        reserved: 0,
        hash: 0,
    };

    fn of(link: LinkType, bytes: &[u8]) -> Option<Self> {
        let headers = headers::parse(link, bytes);
        let key = FlowKey::new(&headers, bytes)?;
        let FlowKey { version, protocol, source, destination, ports } = key;
        let (source_port, destination_port) =
            ports.map_or((0, 0), |ports| (ports.source, ports.destination));
        let version = match version {
            IpVersion::V4 => 4,
            IpVersion::V6 => 6,
        };
        let has_ports = u8::from(ports.is_some());
        let hash = HASHER.with_borrow_mut(|hasher| hasher.hash_parsed(link, &headers, bytes));
        let reserved = 0;
        Some(Self {
            source,
            destination,
            source_port,
            destination_port,
            protocol,
            version,
            has_ports,
            reserved,
            hash,
        })
    }
}
