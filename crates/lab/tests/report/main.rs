//! Reports of records made up here: what they say, what they do with the odd, how they look.

mod again;
mod browser;
mod content;
mod fixtures;
mod odd;
