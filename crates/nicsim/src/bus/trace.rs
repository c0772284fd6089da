//! Traces one packet step by step: the paper's lists 4.1 (receiving) and 4.2 (sending).

use std::fmt;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use burstline_sys::clock;

/// Where steps are written. Clones share it. A failed write is ignored, as the packets matter more.
#[derive(Clone)]
pub struct Trace(Arc<Mutex<Output>>);

struct Output {
    to: Box<dyn Write + Send>,
    began_ns: Option<u64>,
}

/// The side that does a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    Device,
    Driver,
}

impl Trace {
    /// Creates a trace that writes steps to `to`, one per line: time since the first, step, who,
    /// what.
    pub fn new(to: Box<dyn Write + Send>) -> Self {
        Self(Arc::new(Mutex::new(Output { to, began_ns: None })))
    }

    /// Writes one line. `step` is the number in the paper: `4.1.3`.
    pub(crate) fn step(&self, step: &str, who: Who, what: fmt::Arguments<'_>) {
        let mut output = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now_ns = clock::monotonic_ns();
        let ns = now_ns - *output.began_ns.get_or_insert(now_ns);
        let who = match who {
            Who::Device => "device",
            Who::Driver => "driver",
        };
        // A failure cannot be reported anywhere.
        let _ = writeln!(output.to, "{ns:>9} ns  {step}  {who}  {what}");
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Trace")
    }
}
