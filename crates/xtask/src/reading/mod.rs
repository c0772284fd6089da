//! What the rules read: files, manifests, Rust, licence expressions. No opinion here.

pub(crate) mod metadata;
pub(crate) mod rust;
pub(crate) mod spdx;
pub(crate) mod tree;
