//! SQL queries on a tree of flow records, run by DuckDB.
//!
//! ```text
//!  SQL ──► ready   a predefined query by name, with its values
//!      ──► engine  python3 and its duckdb package: engine.py, which the program carries
//!      ◄── a line of JSON with the columns, then one per row
//! ```
//!
//! DuckDB is a Python package and not part of this program: only queries need it. It reads only the
//! tree, and writes nothing.

mod engine;
mod ready;

pub use engine::{
    Answered, Engine, EngineOptions, NoEngine, Query, QueryError, Span, no_engine, pythons,
    tree_text,
};
pub use ready::{READY, Ready, Values};
