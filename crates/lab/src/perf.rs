//! Hardware and kernel event counts on a core, and samples of the code that runs there.
//!
//! ```text
//!   Event --Counter--> number of events       by read(2)
//!   clock --Sampler--> address and process    by a ring that the kernel fills
//! ```

pub(crate) mod counters;
pub(crate) mod sampling;

use burstline_sys::affinity::CoreId;
use perf_event::Builder;
use perf_event::events;

/// Counts on a core in user mode, the kernel and the hypervisor, for any process, from the start.
fn on_core<'a>(event: impl events::Event, core: CoreId) -> Builder<'a> {
    let mut builder = Builder::new(event);
    builder.any_pid().one_cpu(core.0 as usize).enabled(true);
    builder.include_kernel().include_hv();
    builder
}
