//! The ledger of a reader, with the keys of `--json`.

use burstline_port::{Loss, Losses};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::lent::Lent;

/// Packets delivered, counted when Python gets them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) packets: u64,
    /// Captured bytes.
    pub(crate) bytes: u64,
    /// Bytes on the wire, without FCS.
    pub(crate) wire_bytes: u64,
    /// Truncated packets.
    pub(crate) truncated: u64,
}

impl Tally {
    /// Counts a burst that Python gets. Cost: about ten instructions per packet.
    pub(crate) fn add(&mut self, lent: &Lent) {
        self.packets += lent.len() as u64;
        for seen in lent.packets() {
            let (bytes, wire) = (seen.bytes.len() as u64, seen.packet.original_length() as u64);
            self.bytes += bytes;
            self.wire_bytes += wire;
            self.truncated += u64::from(bytes < wire);
        }
    }
}

/// The row of one source.
#[derive(Clone, Debug, Default)]
pub(crate) struct Row {
    pub(crate) port: String,
    pub(crate) offered: u64,
    pub(crate) delivered: Tally,
    pub(crate) lost: Losses,
    pub(crate) in_flight: u64,
    pub(crate) fragments_unmatched: u64,
    pub(crate) writer_down: u64,
    pub(crate) is_damaged: bool,
    pub(crate) notes: Vec<String>,
}

impl Row {
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        let lost = PyDict::new(py);
        for (cause, packets) in self.lost.iter() {
            let cause: Loss = cause;
            lost.set_item(cause.name(), packets)?;
        }
        let known = [self.delivered.packets, self.lost.total(), self.in_flight];
        let known: i128 = known.into_iter().map(i128::from).sum();
        dict.set_item("port", &self.port)?;
        dict.set_item("offered", self.offered)?;
        dict.set_item("delivered", self.delivered.packets)?;
        dict.set_item("bytes", self.delivered.bytes)?;
        dict.set_item("wire_bytes", self.delivered.wire_bytes)?;
        dict.set_item("lost", lost)?;
        dict.set_item("in_flight", self.in_flight)?;
        dict.set_item("truncated", self.delivered.truncated)?;
        dict.set_item("fragments_unmatched", self.fragments_unmatched)?;
        dict.set_item("writer_down", self.writer_down)?;
        dict.set_item("unaccounted", i128::from(self.offered) - known)?;
        Ok(dict)
    }
}

/// Returns the dict of several rows and their sums.
pub(crate) fn to_dict<'py>(
    py: Python<'py>,
    rows: &[Row],
    held: usize,
) -> PyResult<Bound<'py, PyDict>> {
    let mut total = Row { port: "total".into(), ..Row::default() };
    let (ports, notes) = (PyList::empty(py), PyList::empty(py));
    for row in rows {
        total.offered += row.offered;
        total.delivered.packets += row.delivered.packets;
        total.delivered.bytes += row.delivered.bytes;
        total.delivered.wire_bytes += row.delivered.wire_bytes;
        total.delivered.truncated += row.delivered.truncated;
        total.lost.merge(&row.lost);
        total.in_flight += row.in_flight;
        total.fragments_unmatched += row.fragments_unmatched;
        total.writer_down += row.writer_down;
        ports.append(row.to_dict(py)?)?;
        row.notes.iter().try_for_each(|note| notes.append(note))?;
    }
    let (report, sums) = (PyDict::new(py), total.to_dict(py)?);
    sums.del_item("port")?;
    sums.set_item("lost_total", total.lost.total())?;
    report.set_item("ports", ports)?;
    report.set_item("total", sums)?;
    report.set_item("held", held)?;
    report.set_item("damaged", rows.iter().any(|row| row.is_damaged))?;
    report.set_item("notes", notes)?;
    Ok(report)
}
