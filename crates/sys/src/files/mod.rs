//! Files and folders: what the standard library does not offer.

pub mod claim;
pub mod direct;
pub mod folder;
pub mod inode;
pub mod kept;
pub mod late;
pub mod lent;
pub mod locked;
pub mod mounts;
pub mod temporary;
