//! Publishing from Python: packets go to the sink `log:NAME`, like those of any other job.
//!
//! ```text
//!  write([b"...", packet, burst]) ─copy─► staged bytes + Scratch ─burst─► sink ─copy─► the log
//! ```

use std::sync::{Mutex, MutexGuard, TryLockError};

use burstline_log::{Meta, Packet as Seen, SCRATCH_PACKETS, Scratch};
use burstline_port::{Address, OpenOptions, PortAccount, PortTable, Sink, open_sink};
use burstline_sys::clock;
use burstline_wire::hash::{FlowHasher, HashKind};
use burstline_wire::headers::LinkType;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::burst::Burst;
use crate::fault::{BusyError, ClosedError, Error, Fault};
use crate::fork::Here;
use crate::packet::Packet;
use crate::report::{self, Row, Tally};

/// Number of staged bytes after which a burst is sent to the log.
const STAGED_BYTES: usize = 256 << 10;
/// The longest packet that fits a log with segments of 256 KiB.
const LENGTH_MAX: usize = 128 << 10;

/// Publishes packets under a name. burstline.publish() creates one.
#[pyclass(module = "burstline", frozen)]
pub(crate) struct Publisher {
    state: Here<Mutex<State>>,
    name: String,
}

struct State {
    /// `None` once the publisher is closed and its name is removed.
    sink: Option<Box<dyn Sink>>,
    /// The sink's last account.
    account: PortAccount,
    staged: Vec<u8>,
    scratch: Scratch,
    hasher: FlowHasher,
    link: LinkType,
    port: u8,
    written: Tally,
}

impl State {
    /// Stages a packet, after sending the earlier ones if there is no room.
    fn stage(&mut self, bytes: &[u8], mut meta: Meta) -> Result<(), Fault> {
        if self.scratch.is_full() || self.staged.len() + bytes.len() > STAGED_BYTES {
            self.send()?;
        }
        meta.port = self.port;
        meta.hash = self.hasher.hash(self.link, bytes);
        let offset = self.staged.len() as u32;
        self.staged.extend_from_slice(bytes);
        self.scratch.push(offset, bytes.len() as u32, &meta);
        Ok(())
    }

    /// Publishes the staged packets.
    fn send(&mut self) -> Result<(), Fault> {
        if self.scratch.is_empty() {
            return Ok(());
        }
        let Some(sink) = &mut self.sink else { return Ok(()) };
        let burst = self.scratch.burst(&self.staged, 0);
        let sent = sink.transmit(&burst);
        if let Ok(taken) = sent {
            self.written.packets += taken;
            for packet in burst.split_at(taken as usize).0.packets() {
                self.written.bytes += packet.length() as u64;
                self.written.wire_bytes += packet.original_length() as u64;
                let is_cut = packet.length() < packet.original_length();
                self.written.truncated += u64::from(is_cut);
            }
        }
        self.scratch.clear();
        self.staged.clear();
        sent?;
        Ok(())
    }
}

impl Publisher {
    fn lock(&self) -> PyResult<MutexGuard<'_, State>> {
        self.state.get()?.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => {
                BusyError::new_err("another thread is using this publisher now")
            }
            TryLockError::Poisoned(_) => {
                Error::new_err("an earlier call of this publisher has panicked")
            }
        })
    }
}

#[pymethods]
impl Publisher {
    /// Publishes `name`; burstline.publish() explains each argument.
    #[new]
    #[pyo3(signature = (name, *, bytes = 16 << 20, mode = 0o600, lossless = false,
                        hash = "five-tuple", link_type = 1, interface = "python", wait_ms = 100))]
    #[expect(clippy::too_many_arguments, reason = "keywords of Python's")]
    fn new(
        py: Python<'_>,
        name: &str,
        bytes: u64,
        mode: u32,
        lossless: bool,
        hash: &str,
        link_type: u16,
        interface: &str,
        wait_ms: u64,
    ) -> PyResult<Self> {
        let wrong = |text: String| PyValueError::new_err(text);
        if name.contains(['?', '&']) || name.is_empty() {
            return Err(wrong(format!(
                "name is {name:?}: expected a word, or a path with a slash"
            )));
        }
        let hash: HashKind = hash.parse().map_err(|error| wrong(format!("hash: {error}")))?;
        let lossless = if lossless { "yes" } else { "no" };
        let address = format!(
            "log:{name}?bytes={bytes}&mode={mode:04o}&lossless={lossless}&wait_ms={wait_ms}"
        );
        let address: Address = address.parse().map_err(Fault::from)?;
        let (table, link) = (PortTable::new(), LinkType(link_type));
        let options = OpenOptions { table: table.clone(), hash, ..OpenOptions::default() };
        let sink = py.detach(|| open_sink(&address, &options)).map_err(Fault::from)?;
        // The table is empty, so adding cannot fail.
        let port = table.add(interface, link).unwrap_or_default();
        let state = State {
            account: sink.account(),
            sink: Some(sink),
            staged: Vec::with_capacity(STAGED_BYTES),
            scratch: Scratch::new(),
            hasher: FlowHasher::new(hash),
            link,
            port,
            written: Tally::default(),
        };
        Ok(Self { state: Here::new(Mutex::new(state)), name: name.to_owned() })
    }

    /// Publishes packets: a Burst, or an iterable of Packets, bytes-like objects and objects with
    /// __bytes__ (scapy's, dpkt's). `times_ns`: one time for all, in ns since 1970; else a Packet
    /// keeps its own, and others get the time of the call. Returns how many were published; the
    /// others are `log_full` in report().
    #[pyo3(signature = (packets, *, times_ns = None))]
    fn write(
        &self,
        py: Python<'_>,
        packets: &Bound<'_, PyAny>,
        times_ns: Option<u64>,
    ) -> PyResult<u64> {
        let mut guard = self.lock()?;
        let state = &mut *guard;
        if state.sink.is_none() {
            return Err(ClosedError::new_err("this publisher is closed"));
        }
        let before = state.written.packets;
        let now_ns = times_ns.unwrap_or_else(clock::realtime_ns);
        if let Ok(burst) = packets.cast::<Burst>() {
            let lent = burst.get().lent()?;
            py.detach(|| {
                lent.packets().try_for_each(|seen| {
                    let meta = meta_of(&seen.packet, times_ns);
                    state.stage(seen.bytes, meta)
                })?;
                state.send()
            })?;
            return Ok(state.written.packets - before);
        }
        if packets.cast::<Packet>().is_ok() || PyBuffer::<u8>::get(packets).is_ok() {
            let text = "packets is a single packet: use write([packet])";
            return Err(PyTypeError::new_err(text));
        }
        let outcome = stage_each(state, packets, now_ns, times_ns);
        // Packets before an invalid object are published all the same.
        py.detach(|| state.send())?;
        outcome?;
        Ok(state.written.packets - before)
    }

    /// The ledger: one row, with the keys of a Reader's; `delivered` counts published packets.
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let state = self.lock()?;
        let account = state.sink.as_ref().map(|sink| sink.account());
        let account = account.unwrap_or_else(|| state.account.clone());
        let row = Row {
            port: format!("log:{}", self.name),
            offered: account.offered,
            delivered: state.written,
            lost: account.lost,
            in_flight: account.in_flight,
            notes: account.notes,
            ..Row::default()
        };
        report::to_dict(py, &[row], 0)
    }

    /// Stops publishing; readers have 1 s to read the rest. A second call does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let mut guard = self.lock()?;
        let state = &mut *guard;
        let Some(mut sink) = state.sink.take() else { return Ok(()) };
        py.detach(|| {
            let outcome = sink.finish();
            state.account = sink.account();
            outcome
        })
        .map_err(Fault::from)?;
        Ok(())
    }

    /// The name that it publishes under.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.close(py)?;
        Ok(false)
    }

    fn __repr__(&self) -> String {
        format!("<Publisher of {}>", self.name)
    }
}

/// Stages the packets that an iterable yields.
fn stage_each(
    state: &mut State,
    packets: &Bound<'_, PyAny>,
    now_ns: u64,
    time_ns: Option<u64>,
) -> PyResult<()> {
    for (index, item) in packets.try_iter()?.enumerate() {
        let item = item?;
        if let Ok(packet) = item.cast::<Packet>() {
            packet.get().with_bytes(item.py(), |seen, bytes| {
                state.stage(bytes, meta_of(seen, time_ns))
            })??;
            continue;
        }
        let bytes = bytes_of(&item, index)?;
        let meta = Meta::new(now_ns, bytes.len() as u32, 0);
        state.stage(&bytes, meta)?;
    }
    Ok(())
}

/// Returns the metadata of a packet that was read, with `time_ns` if given.
fn meta_of(packet: &Seen<'_>, time_ns: Option<u64>) -> Meta {
    let meta = packet.meta();
    Meta { time_ns: time_ns.unwrap_or(meta.time_ns), ..meta }
}

/// Returns a copy of an object's bytes.
fn bytes_of(item: &Bound<'_, PyAny>, index: usize) -> PyResult<Vec<u8>> {
    let py = item.py();
    let bytes = if let Ok(bytes) = item.cast::<PyBytes>() {
        bytes.as_bytes().to_vec()
    } else if let Ok(buffer) = PyBuffer::<u8>::get(item) {
        buffer.to_vec(py)?
    } else if item.hasattr("__bytes__")? {
        item.call_method0("__bytes__")?.cast_into::<PyBytes>()?.as_bytes().to_vec()
    } else {
        let kind = item.get_type().name()?;
        let text = format!("packets[{index}] is {kind}: neither bytes nor a packet");
        return Err(PyTypeError::new_err(text));
    };
    match bytes.len() {
        1..=LENGTH_MAX => Ok(bytes),
        length => Err(PyValueError::new_err(format!(
            "packets[{index}] has {length} bytes: it must have from 1 to {LENGTH_MAX}"
        ))),
    }
}

const _: () = assert!(SCRATCH_PACKETS > 0 && LENGTH_MAX <= STAGED_BYTES);
