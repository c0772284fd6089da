//! This program as the kernel sees it: rights, limits and resource usage.

pub mod helper;
pub mod limits;
pub mod machine;
pub mod privileges;
pub mod process;
pub mod signals;
#[cfg(not(miri))]
pub mod stack;
pub mod usage;
pub mod users;
