//! Memory exported to numpy, which lives as long as any view of it.
//!
//! Invariant V1: while a view lives, the bytes that it exports to Python neither move nor are
//! freed. They do not change, and Python cannot write them. Only the entries of verdicts are
//! writable.

use std::ffi::c_int;
use std::ptr;
use std::sync::Arc;

use burstline_log::Desc;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyMemoryView;
use pyo3::{IntoPyObjectExt, ffi};

use crate::lent::Lent;

/// Memory of numpy arrays and memoryviews. Keeps its burst until it is collected.
#[pyclass(module = "burstline._native", frozen)]
pub(crate) struct View(What);

enum What {
    /// The memory that the offsets of a burst's worklist point into.
    Memory(Arc<Lent>),
    /// A burst's descs, in place.
    Worklist(Arc<Lent>),
    /// One packet's bytes.
    Packet(Arc<Lent>, usize),
    /// The entries of a burst's verdicts, which Python writes.
    Verdicts(Arc<Lent>),
    /// A computed column.
    Own(Vec<u8>),
}

impl View {
    pub(crate) fn memory(lent: Arc<Lent>) -> Self {
        Self(What::Memory(lent))
    }

    pub(crate) fn worklist(lent: Arc<Lent>) -> Self {
        Self(What::Worklist(lent))
    }

    pub(crate) fn packet(lent: Arc<Lent>, index: usize) -> Self {
        Self(What::Packet(lent, index))
    }

    pub(crate) fn verdicts(lent: Arc<Lent>) -> Self {
        Self(What::Verdicts(lent))
    }

    /// Creates a view of a column that is already serialised.
    pub(crate) fn own(bytes: Vec<u8>) -> Self {
        Self(What::Own(bytes))
    }

    fn start_and_bytes(&self) -> (*const u8, usize) {
        match &self.0 {
            What::Memory(lent) => {
                let burst = lent.burst();
                (burst.start().as_ptr(), burst.extent())
            }
            What::Worklist(lent) => {
                let worklist = lent.worklist();
                (worklist.as_ptr().cast(), size_of_val::<[Desc]>(worklist))
            }
            What::Packet(lent, index) => {
                let bytes = lent.packet(*index).bytes;
                (bytes.as_ptr(), bytes.len())
            }
            What::Verdicts(lent) => {
                let entries = lent.verdicts.as_ref().map_or(&[][..], |given| given.entries());
                (entries.as_ptr().cast(), entries.len())
            }
            What::Own(bytes) => (bytes.as_ptr(), bytes.len()),
        }
    }

    /// Returns a numpy array over the whole view. `dtype` is a name of `burstline/_dtypes.py`.
    pub(crate) fn into_array(self, py: Python<'_>, dtype: Dtype) -> PyResult<Bound<'_, PyAny>> {
        static FROM_BUFFER: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let from_buffer = FROM_BUFFER.get_or_try_init(py, || {
            Ok::<_, PyErr>(py.import("numpy")?.getattr("frombuffer")?.unbind())
        })?;
        let view = Bound::new(py, self)?;
        from_buffer.bind(py).call1((view, dtype.object(py)?))
    }

    /// Returns a memoryview of the whole view.
    pub(crate) fn into_memoryview(self, py: Python<'_>) -> PyResult<Bound<'_, PyMemoryView>> {
        PyMemoryView::from(Bound::new(py, self)?.as_any())
    }
}

#[pymethods]
impl View {
    /// # Safety
    /// `view` is a Py_buffer of the caller's, as the buffer protocol says.
    #[expect(unsafe_code, reason = "the buffer protocol is a C struct")]
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("there is no Py_buffer"));
        }
        let (start, bytes) = slf.get().start_and_bytes();
        let start: *mut u8 = if bytes == 0 { ptr::dangling_mut() } else { start.cast_mut() };
        let is_read_only = c_int::from(!matches!(slf.get().0, What::Verdicts(_)));
        // SAFETY: `view` is the caller's and may be filled. Start and length are those of memory
        // that this object keeps (V1), and the Py_buffer owns a reference to the object. A request
        // for a writable buffer of read-only memory fails with BufferError. The writable memory
        // consists of atomics that we only load, so a concurrent write by Python changes single
        // bytes.
        let outcome = unsafe {
            ffi::PyBuffer_FillInfo(
                view,
                slf.as_ptr(),
                start.cast(),
                bytes as isize,
                is_read_only,
                flags,
            )
        };
        if outcome == 0 { Ok(()) } else { Err(PyErr::fetch(slf.py())) }
    }
}

/// The element types of arrays; `burstline/_dtypes.py` defines their fields.
#[derive(Clone, Copy)]
pub(crate) enum Dtype {
    /// A desc.
    Worklist,
    /// A row of columns.
    Columns,
    /// A byte.
    Byte,
    /// An unsigned 64-bit integer.
    U64,
    /// An unsigned 32-bit integer.
    U32,
}

impl Dtype {
    fn object(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        static WORKLIST: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        static COLUMNS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let (once, name) = match self {
            Self::Worklist => (&WORKLIST, "WORKLIST"),
            Self::Columns => (&COLUMNS, "COLUMNS"),
            Self::Byte => return "u1".into_py_any(py),
            Self::U64 => return "<u8".into_py_any(py),
            Self::U32 => return "<u4".into_py_any(py),
        };
        let found = once.get_or_try_init(py, || {
            Ok::<_, PyErr>(py.import("burstline._dtypes")?.getattr(name)?.unbind())
        })?;
        Ok(found.clone_ref(py))
    }
}
