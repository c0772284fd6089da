//! Files and folders, where the standard library does not do.

pub mod claim;
pub mod direct;
pub mod inode;
pub mod locked;
pub mod mounts;
pub mod temporary;
