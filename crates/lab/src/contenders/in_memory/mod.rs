//! Contenders whose packets are in memory, without an interface or the kernel.

pub(crate) mod behind;
pub(crate) mod dpdk_balance;
pub(crate) mod layouts;
pub(crate) mod memory;
pub(crate) mod merge;
pub(crate) mod pages;
pub(crate) mod pipeline;
pub(crate) mod spread;
pub(crate) mod timed;
