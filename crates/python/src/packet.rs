//! A single packet as a Python object, created on access.

use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView};

use crate::burst::Burst;
use crate::lent::Seen;
use crate::view::View;

/// Resolves a Python index; negative indices count from the end.
pub(crate) fn position(index: isize, count: usize) -> PyResult<usize> {
    let at = if index < 0 { index.checked_add_unsigned(count) } else { Some(index) };
    let at = at.and_then(|at| usize::try_from(at).ok()).filter(|at| *at < count);
    at.ok_or_else(|| PyIndexError::new_err(format!("packet {index} of a burst of {count}")))
}

/// The packets of a burst, the oldest first.
#[pyclass(module = "burstline", sequence, frozen)]
pub(crate) struct Packets(pub(crate) Py<Burst>);

#[pymethods]
impl Packets {
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.0.bind(py).get().lent()?.len())
    }

    fn __getitem__(&self, py: Python<'_>, index: isize) -> PyResult<Packet> {
        let index = position(index, self.__len__(py)?)?;
        Ok(Packet { burst: self.0.clone_ref(py), index })
    }

    fn __iter__(&self, py: Python<'_>) -> PacketIterator {
        PacketIterator { burst: self.0.clone_ref(py), next: 0 }
    }
}

/// Iterates over the packets of a burst, the oldest first.
#[pyclass(module = "burstline._native")]
pub(crate) struct PacketIterator {
    burst: Py<Burst>,
    next: usize,
}

#[pymethods]
impl PacketIterator {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<Packet>> {
        let index = self.next;
        if index >= self.burst.bind(py).get().lent()?.len() {
            return Ok(None);
        }
        self.next += 1;
        Ok(Some(Packet { burst: self.burst.clone_ref(py), index }))
    }
}

/// One packet of a burst. Valid until the burst is released; what `bytes` returned stays valid.
#[pyclass(module = "burstline", frozen)]
pub(crate) struct Packet {
    burst: Py<Burst>,
    index: usize,
}

impl Packet {
    fn with<T>(&self, py: Python<'_>, look: impl FnOnce(&Seen<'_>) -> T) -> PyResult<T> {
        let lent = self.burst.bind(py).get().lent()?;
        Ok(look(&lent.packet(self.index)))
    }

    /// Calls `look` with the packet's bytes and metadata, for a caller that copies them.
    pub(crate) fn with_bytes<T>(
        &self,
        py: Python<'_>,
        look: impl FnOnce(&burstline_log::Packet<'_>, &[u8]) -> T,
    ) -> PyResult<T> {
        self.with(py, |seen| look(&seen.packet, seen.bytes))
    }

    /// Calls a function of `burstline._convert` with this packet.
    fn convert<'py>(slf: &Bound<'py, Self>, function: &str) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("burstline._convert")?.call_method1(function, (slf,))
    }
}

#[pymethods]
impl Packet {
    /// Its bytes from the link header on, without FCS: a read-only memoryview, without a copy.
    #[getter]
    fn bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyMemoryView>> {
        let lent = self.burst.bind(py).get().lent()?;
        View::packet(lent, self.index).into_memoryview(py)
    }

    /// When it arrived, in ns since 1970.
    #[getter]
    fn time_ns(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |seen| seen.packet.time_ns())
    }

    /// Number of its captured bytes.
    #[getter]
    fn length(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, |seen| seen.bytes.len())
    }

    /// Number of its bytes on the wire, without FCS: more than `length` if it was truncated.
    #[getter]
    fn original_length(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, |seen| seen.packet.original_length())
    }

    /// Packets that its port lost just before it.
    #[getter]
    fn drops_before(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |seen| seen.packet.drops_before())
    }

    /// The number of its port, in [0, 255].
    #[getter]
    fn port(&self, py: Python<'_>) -> PyResult<u8> {
        self.with(py, |seen| seen.packet.port())
    }

    /// The name of its port; None if it has no name.
    #[getter]
    fn port_name(&self, py: Python<'_>) -> PyResult<Option<String>> {
        let lent = self.burst.bind(py).get().lent()?;
        Ok(lent.links.name(lent.packet(self.index).packet.port()).map(str::to_owned))
    }

    /// Its link type: a LINKTYPE_ number of libpcap, 1 is Ethernet.
    #[getter]
    fn link_type(&self, py: Python<'_>) -> PyResult<u16> {
        let lent = self.burst.bind(py).get().lent()?;
        Ok(lent.links.link(lent.packet(self.index).packet.port()).0)
    }

    /// Its flow hash, 32 bits; 0 if none was computed.
    #[getter]
    fn hash(&self, py: Python<'_>) -> PyResult<u32> {
        self.with(py, |seen| seen.packet.desc().hash())
    }

    /// Its marks: the sum of FLAG_ constants.
    #[getter]
    fn flags(&self, py: Python<'_>) -> PyResult<u8> {
        self.with(py, |seen| seen.flags())
    }

    /// Its index in the burst, from 0.
    #[getter]
    fn index(&self) -> usize {
        self.index
    }

    /// The packet as a scapy packet, from a copy of its bytes. Needs scapy.
    fn scapy<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::convert(slf, "to_scapy")
    }

    /// The packet as a dpkt object, from a copy of its bytes. Needs dpkt.
    fn dpkt<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::convert(slf, "to_dpkt")
    }

    fn __bytes__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.with(py, |seen| PyBytes::new(py, seen.bytes))
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.length(py)
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let shown = self.with(py, |seen| {
            let (length, packet) = (seen.bytes.len(), seen.packet);
            format!("<Packet {length} bytes, port {}, {} ns>", packet.port(), packet.time_ns())
        });
        shown.unwrap_or_else(|_| "<Packet of a released burst>".to_owned())
    }
}
