//! Reports of artificial records: their contents, their robustness, and their layout.

mod again;
mod browser;
mod content;
mod fixtures;
mod odd;
