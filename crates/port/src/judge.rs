//! Applies a job's wishes, for all sources: the filter, the snapshot length and the flow hash.
//!
//! ```text
//!  packet --wants--> no: filtered; the next wanted packet reports losses before it
//!            | yes
//!          keep ---> the snapshot length cuts it: truncated
//!            v
//!         describe: the flow hash of what is kept
//! ```
//!
//! A filter sees the packet before it is cut; the hash covers the part that is kept.
//!
//! Invariants:
//! - W1: an unwanted packet is counted once, by the source that left it out.
//! - W2: without a filter, a hash and a snapshot length, the cost is a branch or two per packet.

use burstline_log::{MAX_PACKET_BYTES, Meta};
use burstline_wire::hash::{FlowHasher, HashKind};
use burstline_wire::headers::LinkType;

use crate::filter::FilterByLink;
use crate::{Filter, Loss, OpenOptions, PortAccount, PortError};

/// A job's wishes for one source, and its counts.
pub(crate) struct Judge {
    programs: FilterByLink,
    is_filtering: bool,
    hasher: FlowHasher,
    is_hashing: bool,
    /// At most the longest packet of a log.
    snapshot_bytes: u32,
    filtered: u64,
    truncated: u64,
    /// Lost before unwanted packets; the next wanted one reports it.
    drops_before: u64,
}

impl Judge {
    /// Creates the judge of a job; the link types must be [added](Self::add_link).
    pub(crate) fn new(options: &OpenOptions) -> Self {
        Self::with_programs(options, FilterByLink::new(&options.filter))
    }

    /// Creates the judge for packets of one link type; `port` is for the error.
    pub(crate) fn for_link(
        options: &OpenOptions,
        port: &str,
        link: LinkType,
    ) -> Result<Self, PortError> {
        let mut judge = Self::new(options);
        judge.add_link(port, link)?;
        Ok(judge)
    }

    /// As [`new`](Self::new), with a filter that is already compiled.
    pub(crate) fn with_programs(options: &OpenOptions, programs: FilterByLink) -> Self {
        let most = MAX_PACKET_BYTES as u32;
        Self {
            programs,
            is_filtering: options.filter != Filter::All,
            hasher: FlowHasher::new(options.hash),
            is_hashing: options.hash != HashKind::None,
            snapshot_bytes: options.snapshot_bytes.unwrap_or(most).min(most),
            filtered: 0,
            truncated: 0,
            drops_before: 0,
        }
    }

    /// Adds a link type, before its packets come; `port` is for the error.
    pub(crate) fn add_link(&mut self, port: &str, link: LinkType) -> Result<(), PortError> {
        self.programs.add(port, link)
    }

    /// Sets whether to hash packets. False if they arrive with the wanted hash.
    pub(crate) fn set_hashing(&mut self, is_hashing: bool) {
        self.is_hashing = is_hashing;
    }

    /// Whether some packets may be unwanted.
    #[inline]
    pub(crate) fn is_filtering(&self) -> bool {
        self.is_filtering
    }

    /// Whether each packet is hashed.
    #[inline]
    pub(crate) fn is_hashing(&self) -> bool {
        self.is_hashing
    }

    /// Returns the maximum number of bytes kept of a packet.
    #[inline]
    pub(crate) fn snapshot_bytes(&self) -> u32 {
        self.snapshot_bytes
    }

    /// Whether all packets are wanted, untruncated.
    #[inline]
    pub(crate) fn takes_all(&self) -> bool {
        !self.is_filtering && self.snapshot_bytes == MAX_PACKET_BYTES as u32
    }

    /// Returns the number of unwanted packets.
    #[inline]
    pub(crate) fn filtered(&self) -> u64 {
        self.filtered
    }

    /// Whether a packet is wanted; counts it if it is not. `bytes` are all its available bytes,
    /// `drops_before` is the number of losses that it reports.
    #[inline]
    pub(crate) fn wants(
        &mut self,
        link: LinkType,
        bytes: &[u8],
        original_length: u32,
        drops_before: u64,
    ) -> bool {
        if !self.is_filtering || self.programs.wants(link, bytes, original_length) {
            return true;
        }
        self.filtered += 1;
        self.drops_before = self.drops_before.saturating_add(drops_before);
        false
    }

    /// Returns how many bytes of a packet of `length` are kept. Counts the packet if it is
    /// truncated.
    #[inline(always)]
    pub(crate) fn keep(&mut self, length: u32, original_length: u32) -> u32 {
        let kept = length.min(self.snapshot_bytes);
        self.truncated += u64::from(kept < original_length);
        kept
    }

    /// Completes the metadata of a delivered packet; `kept` are the bytes that are kept.
    #[inline(always)]
    pub(crate) fn describe<'a>(
        &mut self,
        link: LinkType,
        meta: &mut Meta,
        kept: impl FnOnce() -> &'a [u8],
    ) {
        if self.is_filtering {
            meta.drops_before += std::mem::take(&mut self.drops_before);
        }
        if self.is_hashing {
            meta.hash = self.hasher.hash(link, kept());
        }
    }

    /// Adds its counts to an account.
    pub(crate) fn enter_into(&self, account: &mut PortAccount) {
        account.truncated += self.truncated;
        account.fragments_unmatched += self.hasher.fragments_unmatched();
        if self.is_filtering {
            account.lost.add(Loss::Filtered, self.filtered);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Accepts packets whose first byte is 7: ldb [0]; jeq #7; ret #1; ret #0.
    const SEVEN: &str = "48 0 0 0\n21 0 1 7\n6 0 0 1\n6 0 0 0";

    fn judge(filter: &str, snapshot_bytes: Option<u32>, hash: HashKind) -> Judge {
        let filter = filter.parse().unwrap();
        let options = OpenOptions { filter, snapshot_bytes, hash, ..OpenOptions::default() };
        Judge::for_link(&options, "gen:", LinkType::ETHERNET).unwrap()
    }

    #[test]
    fn what_is_lost_before_an_unwanted_packet_is_told_by_the_next() {
        let mut judge = judge(SEVEN, None, HashKind::None);
        assert!(judge.is_filtering() && !judge.takes_all());
        assert!(!judge.wants(LinkType::ETHERNET, &[1; 60], 60, 3));
        assert!(!judge.wants(LinkType::ETHERNET, &[2; 60], 60, 4));
        assert!(judge.wants(LinkType::ETHERNET, &[7; 60], 60, 5));
        let mut meta = Meta::new(0, 60, 0);
        meta.drops_before = 5;
        judge.describe(LinkType::ETHERNET, &mut meta, || &[]);
        assert_eq!((meta.drops_before, judge.filtered()), (12, 2));
        judge.describe(LinkType::ETHERNET, &mut meta, || &[]);
        assert_eq!(meta.drops_before, 12, "once");
        let mut account = PortAccount::default();
        judge.enter_into(&mut account);
        assert_eq!((account.lost.of(Loss::Filtered), account.truncated), (2, 0));
    }

    #[test]
    fn a_filter_sees_what_is_cut_and_a_hash_does_not() {
        let mut judge = judge(SEVEN, Some(16), HashKind::None);
        assert!(judge.wants(LinkType::ETHERNET, &[7; 60], 60, 0));
        assert_eq!((judge.keep(60, 60), judge.keep(9, 9), judge.keep(9, 60)), (16, 9, 9));
        let mut account = PortAccount::default();
        judge.enter_into(&mut account);
        assert_eq!(account.truncated, 2);
    }

    #[test]
    fn who_wants_nothing_special_takes_all() {
        let mut plain = judge("", None, HashKind::None);
        assert!(plain.takes_all() && !plain.is_hashing());
        assert!(plain.wants(LinkType::ETHERNET, &[], 0, 9));
        let mut account = PortAccount::default();
        plain.enter_into(&mut account);
        assert_eq!(account.lost.iter().count(), 0, "a cause that cannot be is not named");
        let longest = judge("", Some(MAX_PACKET_BYTES as u32), HashKind::None);
        assert!(longest.takes_all());
        assert!(!judge("", Some(96), HashKind::None).takes_all());
        assert!(judge("", None, HashKind::FiveTuple).is_hashing());
    }
}
