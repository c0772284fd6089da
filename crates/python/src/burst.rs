//! The Python class `Burst`.

use std::sync::{Arc, Mutex, PoisonError};

use burstline_log::{Verdict, VerdictError};
use burstline_wire::hash::HashKind;
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyBytes, PySlice};

use crate::columns;
use crate::fault::{Fault, ReleasedError};
use crate::lent::{Lent, Seen};
use crate::packet::{Packets, position};
use crate::verdicts::Verdicts;
use crate::view::{Dtype, View};

/// A burst's share of its packets, which the reader can take back.
#[derive(Clone)]
pub(crate) struct Share(Arc<Mutex<Option<Arc<Lent>>>>);

impl Share {
    pub(crate) fn new(lent: &Arc<Lent>) -> Self {
        Self(Arc::new(Mutex::new(Some(Arc::clone(lent)))))
    }

    /// Takes the share back, and gives the pending verdicts. Views keep their shares.
    pub(crate) fn release(&self) -> Result<(), Fault> {
        let lent = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Drop it without the lock: it may be the last share.
        lent.and_then(|lent| lent.verdicts.as_ref().map(Verdicts::settle)).unwrap_or(Ok(()))
    }

    fn lent(&self) -> Option<Arc<Lent>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A run of packets of one log, which lie where the source has put them.
///
/// It is valid until its release: by the next step of the loop over its reader, at the end of `with
/// burst:`, or by release(). After that everything asked of it raises ReleasedError. Arrays and
/// memoryviews stay valid: they keep its memory until they are collected.
#[pyclass(module = "burstline", frozen)]
pub(crate) struct Burst(Share);

impl Burst {
    pub(crate) fn new(share: Share) -> Self {
        Self(share)
    }

    /// Returns the packets, if they are not released and this process opened the reader.
    pub(crate) fn lent(&self) -> PyResult<Arc<Lent>> {
        let lent = self.0.lent().ok_or_else(|| {
            ReleasedError::new_err(
                "this burst is released: the loop has moved on, or its `with` has ended; copy what \
                 you keep (array.copy(), bytes(packet))",
            )
        })?;
        lent.here().check()?;
        Ok(lent)
    }

    fn column<'py, const BYTES: usize>(
        &self,
        py: Python<'py>,
        dtype: Dtype,
        value: impl Fn(&Seen<'_>) -> [u8; BYTES],
    ) -> PyResult<Bound<'py, PyAny>> {
        let lent = self.lent()?;
        let bytes = lent.packets().flat_map(|seen| value(&seen)).collect();
        View::own(bytes).into_array(py, dtype)
    }

    /// Gives a packet its verdict immediately.
    fn give(&self, index: isize, verdict: Verdict<'_>) -> PyResult<()> {
        let lent = self.lent()?;
        let given = waiting(&lent)?.give(position(index, lent.len())?, verdict);
        match given {
            Ok(true) => Ok(()),
            Ok(false) => {
                Err(PyValueError::new_err(format!("packet {index} already has its verdict")))
            }
            Err(error @ VerdictError::NoRoom { .. }) => {
                Err(PyBufferError::new_err(error.to_string()))
            }
            Err(error) => Err(PyValueError::new_err(error.to_string())),
        }
    }

    fn convert<'py>(
        slf: &Bound<'py, Self>,
        function: &str,
        is_with_bytes: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("burstline._convert")?.call_method1(function, (slf, is_with_bytes))
    }
}

/// Returns the verdicts of packets that wait for some, else an error.
fn waiting(lent: &Lent) -> PyResult<&Verdicts> {
    lent.verdicts.as_ref().ok_or_else(|| {
        PyValueError::new_err(
            "no packets wait for this reader: burstline.open(NAME, verdicts=True) gives verdicts",
        )
    })
}

/// A verdict given by Python, as a name or a number.
#[derive(FromPyObject)]
enum Said {
    Name(String),
    Number(u8),
}

#[pymethods]
impl Burst {
    /// One entry a packet, the oldest first: a read-only array of shape (n,) and dtype WORKLIST,
    /// over the worklist itself. Valid until it is collected.
    #[getter]
    fn worklist<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let newest_first = View::worklist(self.lent()?).into_array(py, Dtype::Worklist)?;
        newest_first.get_item(PySlice::new(py, isize::MAX, isize::MIN, -1))
    }

    /// What worklist["offset"] counts from: a read-only array of bytes, without a copy. Packet i
    /// is memory[offset[i] : offset[i] + lengths[i]].
    #[getter]
    fn memory<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        View::memory(self.lent()?).into_array(py, Dtype::Byte)
    }

    /// The packets as objects, the oldest first, each created on access.
    #[getter]
    fn packets(slf: &Bound<'_, Self>) -> PyResult<Packets> {
        slf.get().lent()?;
        Ok(Packets(slf.clone().unbind()))
    }

    /// Bytes of each packet that are here: uint32, shape (n,), a copy.
    fn lengths<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.column(py, Dtype::U32, |seen| (seen.bytes.len() as u32).to_le_bytes())
    }

    /// Bytes of each packet on the wire, without FCS: uint32, shape (n,), a copy.
    fn original_lengths<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.column(py, Dtype::U32, |seen| (seen.packet.original_length() as u32).to_le_bytes())
    }

    /// When each packet arrived, in ns since 1970: uint64, shape (n,), a copy.
    fn times_ns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.column(py, Dtype::U64, |seen| seen.packet.time_ns().to_le_bytes())
    }

    /// The marks of each packet, sums of FLAG_ constants: uint8, shape (n,), a copy.
    fn flags<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.column(py, Dtype::Byte, |seen| [seen.flags()])
    }

    /// Times, lengths, addresses, ports and protocol of each packet: shape (n,), dtype COLUMNS, a
    /// copy. No object is made for a packet.
    fn columns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let lent = self.lent()?;
        let rows = py.detach(|| columns::rows(&lent));
        View::own(rows).into_array(py, Dtype::Columns)
    }

    /// The verdict of each packet: a uint8 array of shape (n,) to be written, PASS at first. Its
    /// entries are read once, when the burst is released, for packets that verdict() and replace()
    /// have not decided. Only of a reader that was opened with verdicts=True.
    #[getter]
    fn verdicts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let lent = self.lent()?;
        waiting(&lent)?;
        View::verdicts(lent).into_array(py, Dtype::Byte)
    }

    /// Gives packet `index` its verdict at once: "pass", "drop", "reject", "pass-flow", or one of
    /// the constants. A packet has one verdict: the second is a ValueError.
    fn verdict(&self, index: isize, verdict: Said) -> PyResult<()> {
        let (found, said) = match &verdict {
            Said::Name(name) => (Verdict::of_word(name), format!("{name:?}")),
            Said::Number(number) => (Verdict::of_code((*number).into()), number.to_string()),
        };
        let verdict = found.ok_or_else(|| {
            PyValueError::new_err(format!(
                "verdict is {said}: it must be 'pass', 'drop', 'reject' or 'pass-flow'"
            ))
        })?;
        self.give(index, verdict)
    }

    /// Sends other bytes in place of packet `index`, at once: 14 to 65535, from the link header on.
    /// BufferError: earlier ones have yet to leave, and there is no room.
    fn replace(&self, index: isize, packet: &Bound<'_, PyBytes>) -> PyResult<()> {
        self.give(index, Verdict::Replace(packet.as_bytes()))
    }

    /// A pandas.DataFrame, a row a packet, of copies; with_bytes adds a column of bytes. Needs
    /// pandas.
    #[pyo3(signature = (*, with_bytes = false))]
    fn to_pandas<'py>(slf: &Bound<'py, Self>, with_bytes: bool) -> PyResult<Bound<'py, PyAny>> {
        Self::convert(slf, "to_pandas", with_bytes)
    }

    /// A pyarrow.RecordBatch, a row a packet, of copies; with_bytes adds a column of bytes. Needs
    /// pyarrow.
    #[pyo3(signature = (*, with_bytes = false))]
    fn to_arrow<'py>(slf: &Bound<'py, Self>, with_bytes: bool) -> PyResult<Bound<'py, PyAny>> {
        Self::convert(slf, "to_arrow", with_bytes)
    }

    /// What worklist["time_delta_ns"] counts from, in ns since 1970. times_ns() knows the packets
    /// that lie too far away for a delta, too.
    #[getter]
    fn base_time_ns(&self) -> PyResult<u64> {
        Ok(self.lent()?.burst().base_time_ns())
    }

    /// The number of the first packet that lies here, counted from 0 in each log of each epoch.
    #[getter]
    fn first_packet(&self) -> PyResult<u64> {
        Ok(self.lent()?.burst().first_packet())
    }

    /// Which log of the name it is of, or which source: from 0.
    #[getter]
    fn log(&self) -> PyResult<u32> {
        Ok(self.lent()?.log)
    }

    /// Which publisher of the name it is of: a later one has a larger number. 0: not published.
    #[getter]
    fn epoch(&self) -> PyResult<u64> {
        Ok(self.lent()?.epoch)
    }

    /// What worklist["hash"] is made from, such as "five-tuple"; "none": all are 0.
    #[getter]
    fn hash_kind(&self) -> PyResult<String> {
        let code = self.lent()?.hash_kind;
        let kind = u16::try_from(code).ok().and_then(HashKind::from_code);
        Ok(kind.map_or_else(|| format!("unknown: {code}"), |kind| kind.to_string()))
    }

    /// Whether it is released.
    #[getter]
    fn released(&self) -> bool {
        self.0.lent().is_none()
    }

    /// Releases the packets; may be called repeatedly. Views that are alive keep the memory.
    fn release(&self) -> PyResult<()> {
        if let Some(lent) = self.0.lent() {
            lent.here().check()?;
        }
        Ok(self.0.release()?)
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        slf.get().lent()?;
        Ok(slf)
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.release()?;
        Ok(false)
    }

    fn __len__(&self) -> PyResult<usize> {
        Ok(self.lent()?.len())
    }

    fn __repr__(&self) -> String {
        match self.0.lent() {
            Some(lent) => format!("<Burst of {} packets>", lent.len()),
            None => "<Burst, released>".to_owned(),
        }
    }
}
