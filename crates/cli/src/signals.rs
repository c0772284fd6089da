//! SIGINT and SIGTERM: the first ends the job in good order, the second at once. SIGXFSZ, a file
//! above `ulimit -f`, is an error of the write that went too far, not the end of the process.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;

use crate::failure::Failure;

/// A flag that the first SIGINT or SIGTERM sets.
pub(crate) fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // Handlers run in this order: the flag is still down when the first signal looks at it.
        // 128 + the signal's number is what a shell shows for a program that a signal ended.
        flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&stop))
            .and_then(|_| flag::register(signal, Arc::clone(&stop)))
            .map_err(|error| Failure::new(format!("catch signal {signal}: {error}")))?;
    }
    // A handler that does nothing is enough: the write then fails with EFBIG, and is counted.
    flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)))
        .map_err(|error| Failure::new(format!("catch signal {SIGXFSZ}: {error}")))?;
    Ok(stop)
}
