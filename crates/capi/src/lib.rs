//! The C library: published logs, read and written by programs that are not in Rust.
//!
//! ```text
//! C program                    border                  Rust
//!   burstline_open  ─────►  checks, catch_unwind  ──►  share: a seat at each log of the name
//!   burstline_next  ─────►  handle -> reader      ──►  log: a burst, held
//!     worklist, bytes ◄───────────────────────────────  the publisher's own memory, read-only
//!   burstline_release ───►  ticket -> burst       ──►  log: its segment may be reused
//! ```
//!
//! Writing is likewise: `publishing` has the functions, `writers` what they stand for.
//!
//! A call is for a burst, never for a packet. The program walks worklist and bytes itself, with the
//! inline functions at the end of `include/burstline.h` or its own loop. The header is generated
//! from this crate (`make header`), and a test fails where it is not as the code says. What may
//! change and what may not is promised in `docs/c-interface.md`.
//!
//! Who owns what when:
//! - a `burstline_reader *` is a number, never looked behind; the table in `handles` says what it
//!   stands for. A closed reader is no longer in it, so any later use of its number is an error,
//!   not a fault.
//! - a burst is the program's from `burstline_next` to `burstline_release`, and known by its
//!   ticket, which is never given twice. Closing its reader releases it: the program must not look
//!   at its bytes any more, which nobody can check.
//! - an error's text is its reader's, and the thread's where there is no reader: so a writer's.
//!
//! Invariants:
//! - B1: nothing unwinds into C. Each exported function is one call of `border`; a library in
//!   which panics abort refuses to open anything.
//! - B2: each pointer from C is checked for NULL and alignment before use. It is then used only as
//!   what the header says it points to.
//! - B3: a burst that C holds is in its handle's list, and what it points to stays mapped and
//!   constant while it is there.

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
