//! The input of the rules: files, manifests, Rust, licence expressions. Contains no rules.

pub(crate) mod metadata;
pub(crate) mod rust;
pub(crate) mod tree;
