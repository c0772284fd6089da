//! Questions about a tree of flow records, which DuckDB answers.
//!
//! ```text
//!  SQL ──► ready   a ready question by its name, with its values
//!      ──► engine  python3 and its duckdb package: engine.py, which the program carries
//!      ◄── a line of JSON with the columns, then one a row
//! ```
//!
//! DuckDB is a package of Python's, and no part of this program: who asks nothing needs none. It
//! reads the tree and nothing else, and writes nothing.

mod engine;
mod ready;

pub use engine::{Answered, Query, QueryError, Span};
pub use ready::{READY, Ready, Values};
