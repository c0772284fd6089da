//! What the kernel and the processor count on a core, and what runs there, whatever it is.
//!
//! ```text
//!   Event --Counter--> how often it was       by read(2)
//!   clock --Sampler--> address and process    by a ring that the kernel fills
//! ```

pub(crate) mod counters;
pub(crate) mod sampling;

use burstline_sys::affinity::CoreId;
use perf_event::Builder;
use perf_event::events;

/// Of a core, whatever runs there, in user mode, in the kernel and in a hypervisor; from the start.
fn on_core<'a>(event: impl events::Event, core: CoreId) -> Builder<'a> {
    let mut builder = Builder::new(event);
    builder.any_pid().one_cpu(core.0 as usize).enabled(true);
    builder.include_kernel().include_hv();
    builder
}
