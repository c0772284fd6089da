//! Helpers for these tests.

use burstline_port::{Loss, PortAccount, Source};
use burstline_testbed::{Bed, FAR};

pub(crate) use crate::common::live::{
    PATIENCE, check_closed, drain, drain_by_receiving, drain_into, drain_through_full_log,
    lend_until, lend_while, notes, numbers, open, rename_far, send, send_by, try_open, wait_for,
};

pub(crate) fn open_far(bed: &Bed, query: &str) -> Box<dyn Source> {
    open(&bed.far, &format!("afpacket:{FAR}?{query}"))
}

pub(crate) fn ring_full(account: &PortAccount) -> u64 {
    account.lost.of(Loss::RxRingFull)
}
