//! The C library: lets programs in other languages read and write published logs.
//!
//! ```text
//! C program                    border                  Rust
//!   burstline_open  ─────►  checks, catch_unwind  ──►  share: a seat at each log of the name
//!   burstline_next  ─────►  handle -> reader      ──►  log: a burst, held
//!     worklist, bytes ◄───────────────────────────────  the publisher's own memory, read-only
//!   burstline_release ───►  ticket -> burst       ──►  log: its segment may be reused
//! ```
//!
//! Writing works likewise: `publishing` has the functions, `writers` the objects behind them.
//!
//! Calls are per burst, never per packet. The program walks worklist and bytes itself, with the
//! inline functions at the end of `include/burstline.h` or its own loop. The header is generated
//! from this crate (`make header`), and a test fails if it is out of date. `docs/c-interface.md`
//! states what may change and what may not.
//!
//! Ownership:
//! - a `burstline_reader *` is a number, never dereferenced; the table in `handles` maps it to a
//!   reader. A closed reader is no longer in the table, so any later use of its number is an error,
//!   not a fault.
//! - a burst belongs to the program from `burstline_next` to `burstline_release`. It is known by
//!   its ticket, which is never reused. Closing its reader releases it: the program must not access
//!   its bytes any more, which nothing can check.
//! - an error's text belongs to its reader, or to the thread if there is no reader, as for a
//!   writer.
//!
//! Invariants:
//! - B1: nothing unwinds into C. Each exported function is one call of `border`; a library in
//!   which panics abort refuses to open anything.
//! - B2: each pointer from C is checked for NULL and alignment before use. It is then used only as
//!   the header describes.
//! - B3: a burst that C holds is in its handle's list; while it is there, its memory stays mapped
//!   and constant.

mod border;
mod exports;
mod handles;
mod options;
mod publishing;
mod reading;
mod types;
mod writers;

pub use exports::*;
pub use publishing::*;
pub use types::*;
