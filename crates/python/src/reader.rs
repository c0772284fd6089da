//! The Python class `Reader`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};

use burstline_port::{Filter, OpenOptions};
use burstline_wire::hash::HashKind;
use pyo3::exceptions::{PyOverflowError, PyStopIteration, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict};

use crate::burst::{Burst, Share};
use crate::fault::{BusyError, ClosedError, Error, Fault};
use crate::fork::Here;
use crate::inlet::{Found, Inlet};
use crate::lent::Lent;
use crate::report::{self, Row};

/// Maximum wait before Python checks for signals.
const SLICE_NS: u64 = 50_000_000;
/// Maximum number of segments, or copies, that a reader may hold.
const WINDOW_MAX: usize = burstline_log::MAX_WINDOW;
/// The longest packet.
const SNAPLEN_MAX: u32 = burstline_log::MAX_PACKET_BYTES as u32;
/// The longest timeout, in s, limited by ns in 64 bits.
const TIMEOUT_S_MAX: f64 = 1e9;

/// A source of packets. burstline.open() creates one.
#[pyclass(module = "burstline", frozen)]
pub(crate) struct Reader {
    state: Here<Mutex<State>>,
    /// Whether another thread is closing the reader, so that a waiting thread must return.
    is_closing: Mutex<bool>,
    source: String,
}

struct State {
    /// `None` once the reader is closed.
    inlet: Option<Inlet>,
    /// The final ledger rows.
    rows: Vec<Row>,
    /// The last burst given to Python, to be taken back.
    last: Option<Share>,
    /// Whether the source has ended.
    has_ended: bool,
    /// All bursts that may still be held.
    lent: Vec<Weak<Lent>>,
}

/// The result of one poll.
enum Outcome {
    Burst(Burst),
    Nothing,
    End,
}

impl State {
    /// Returns the number of bursts held by a view or by Python's burst.
    fn held(&mut self) -> usize {
        self.lent.retain(|lent| lent.strong_count() > 0);
        self.lent.len()
    }

    fn release_last(&mut self) -> Result<(), Fault> {
        self.last.take().map_or(Ok(()), |last| last.release())
    }

    /// Polls once, for at most [`SLICE_NS`].
    fn look(&mut self, timeout_ns: u64) -> Result<Outcome, Fault> {
        let Some(inlet) = &mut self.inlet else { return Ok(Outcome::End) };
        match inlet.next(timeout_ns.min(SLICE_NS))? {
            Found::Burst(lent) => {
                self.held();
                self.lent.push(Arc::downgrade(&lent));
                let share = Share::new(&lent);
                self.last = Some(share.clone());
                Ok(Outcome::Burst(Burst::new(share)))
            }
            Found::Nothing | Found::Again => Ok(Outcome::Nothing),
            Found::End => {
                self.has_ended = true;
                Ok(Outcome::End)
            }
            Found::WindowFull { window } => Err(Fault::WindowFull { held: self.held(), window }),
        }
    }
}

impl Reader {
    fn is_closing(&self) -> MutexGuard<'_, bool> {
        self.is_closing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> PyResult<MutexGuard<'_, State>> {
        self.state.get()?.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => BusyError::new_err("another thread is using this reader"),
            TryLockError::Poisoned(_) => {
                Error::new_err("an earlier call of this reader panicked: open it again")
            }
        })
    }

    /// Waits for the next burst, in slices, without holding the GIL (P2).
    fn wait(&self, py: Python<'_>, timeout_ns: u64) -> PyResult<Outcome> {
        let mut left_ns = timeout_ns;
        self.lock()?.release_last()?;
        loop {
            let slice_ns = left_ns.min(SLICE_NS);
            let outcome = py.detach(|| {
                let mut state = self.lock()?;
                if state.inlet.is_none() || *self.is_closing() {
                    return Err(closed());
                }
                Ok::<_, PyErr>(state.look(slice_ns)?)
            })?;
            match outcome {
                Outcome::Nothing if left_ns > slice_ns => {
                    left_ns = if left_ns == u64::MAX { left_ns } else { left_ns - slice_ns };
                    py.check_signals()?;
                }
                outcome => return Ok(outcome),
            }
        }
    }
}

fn closed() -> PyErr {
    ClosedError::new_err("this reader is closed")
}

#[pymethods]
impl Reader {
    /// Opens `source`; burstline.open() explains each argument.
    #[new]
    #[pyo3(signature = (source, *, filter = None, snaplen = None, hash = "five-tuple",
                        window = 4, steal = false, verdicts = false))]
    #[expect(clippy::too_many_arguments, reason = "Python's are named")]
    fn new(
        py: Python<'_>,
        source: &str,
        filter: Option<&str>,
        snaplen: Option<u32>,
        hash: &str,
        window: usize,
        steal: bool,
        verdicts: bool,
    ) -> PyResult<Self> {
        let wrong = |text: String| PyValueError::new_err(text);
        if !(2..=WINDOW_MAX).contains(&window) {
            return Err(wrong(format!("window is {window}: it must be from 2 to {WINDOW_MAX}")));
        }
        if let Some(bytes) = snaplen.filter(|bytes| !(1..=SNAPLEN_MAX).contains(bytes)) {
            return Err(wrong(format!("snaplen is {bytes}: it must be from 1 to {SNAPLEN_MAX}")));
        }
        let filter: Filter = match filter {
            Some(text) => text.parse().map_err(|error| wrong(format!("filter: {error}")))?,
            None => Filter::All,
        };
        let hash: HashKind = hash.parse().map_err(|error| wrong(format!("hash: {error}")))?;
        let options = OpenOptions {
            hash,
            filter,
            snapshot_bytes: snaplen,
            may_steal: steal,
            ..OpenOptions::default()
        };
        let interrupted = Mutex::new(None);
        let check = || {
            let signal = Python::attach(|py| py.check_signals()).err();
            let is_interrupted = signal.is_some();
            if let Ok(mut kept) = interrupted.lock() {
                *kept = signal;
            }
            is_interrupted
        };
        let opened = py.detach(|| Inlet::open(source, window, verdicts, &options, check));
        if let Some(signal) = interrupted.into_inner().ok().flatten() {
            return Err(signal);
        }
        let state = State {
            inlet: Some(opened?),
            rows: vec![],
            last: None,
            has_ended: false,
            lent: vec![],
        };
        Ok(Self {
            state: Here::new(Mutex::new(state)),
            is_closing: Mutex::new(false),
            source: source.to_owned(),
        })
    }

    /// Returns the next burst; None if none arrives within `timeout` s, or the source has ended.
    /// Releases the previous one. Without a timeout it waits.
    #[pyo3(signature = (timeout = None))]
    fn next(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<Burst>> {
        let timeout_ns = match timeout {
            None => u64::MAX,
            Some(s) if (0.0..=TIMEOUT_S_MAX).contains(&s) => (s * 1e9) as u64,
            Some(s) => {
                let text = format!("timeout is {s} s: it must be from 0 to {TIMEOUT_S_MAX}");
                return Err(PyOverflowError::new_err(text));
            }
        };
        Ok(match self.wait(py, timeout_ns)? {
            Outcome::Burst(burst) => Some(burst),
            Outcome::Nothing | Outcome::End => None,
        })
    }

    /// The ledger so far, with the keys of `burstline count --json`: `ports`, a dict per source,
    /// and `total`. Each has `offered`, `delivered`, `lost` by cause, `in_flight` and
    /// `unaccounted`, which is 0. `held`: bursts whose memory is kept by views, or was not
    /// released.
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let mut state = self.lock()?;
        let held = state.held();
        match &state.inlet {
            Some(inlet) => report::to_dict(py, &inlet.rows(), held),
            None => report::to_dict(py, &state.rows, held),
        }
    }

    /// Releases the last burst and ends reading; a second call does nothing. Views stay valid. Any
    /// thread may call it at any time: one that waits in this reader gets ClosedError.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let state = self.state.get()?;
        *self.is_closing() = true;
        py.detach(|| {
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            let released = state.release_last();
            let Some(mut inlet) = state.inlet.take() else { return Ok(()) };
            let outcome = inlet.close();
            state.rows = inlet.rows();
            Ok(released.and(outcome)?)
        })
    }

    /// Whether it is closed.
    #[getter]
    fn closed(&self) -> PyResult<bool> {
        self.state.get()?;
        Ok(*self.is_closing())
    }

    /// Whether the source has ended: next() then always returns None.
    #[getter]
    fn ended(&self) -> PyResult<bool> {
        Ok(self.lock()?.has_ended)
    }

    /// The source that it was opened with.
    #[getter]
    fn source(&self) -> &str {
        &self.source
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Burst> {
        match self.wait(py, u64::MAX)? {
            Outcome::Burst(burst) => Ok(burst),
            Outcome::Nothing | Outcome::End => Err(PyStopIteration::new_err(())),
        }
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
        format!("<Reader of {}>", self.source)
    }
}
