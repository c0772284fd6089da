//! Who filters which packets: the kernel, or the port.
//!
//! | packet | judged by | counted by |
//! |---|---|---|
//! | as it came | the kernel, before it copies | a second socket, which the complement is for |
//! | without its VLAN tag | the port, when the tag is back | the port |
//! | any, in a fanout group or by an inherited socket | the port | the port |
//!
//! A second socket would see the packets of all members of a group; so there the kernel filters
//! nothing. A process that was given its socket may make no second one. The same where a program
//! has no complement that the kernel takes.

use burstline_sys::afpacket::{Instruction, RingOptions, RingPacket};
use burstline_wire::filter::Program;
use burstline_wire::headers::LinkType;

use crate::filter::for_kernel;
use crate::{Filter, PortError};

/// The filter of an interface, as far as it is not the kernel's work.
pub(super) struct Judge {
    program: Option<Program>,
    /// Whether the kernel filters nothing.
    is_alone: bool,
    /// Packets that were taken from the ring and not wanted.
    pub(super) filtered: u64,
    /// Drops before such packets, to be told by the next one.
    drops_before: u64,
}

impl Judge {
    /// Compiles the filter and gives the kernel its part, and the snapshot length.
    pub(super) fn new(
        filter: &Filter,
        port: &str,
        link: LinkType,
        snapshot_bytes: Option<u32>,
        ring: &mut RingOptions,
    ) -> Result<Self, PortError> {
        let keep_bytes = snapshot_bytes.map(|bytes| bytes.max(1));
        let program = filter.compile(port, link)?;
        let mut is_alone = false;
        match &program {
            None => ring.filter = keep_bytes.map(Instruction::keep).into_iter().collect(),
            Some(program) if ring.fanout.is_none() && ring.inherited.is_none() => {
                let main = program.for_packet_socket(keep_bytes.unwrap_or(u32::MAX));
                match (main, program.complement_for_packet_socket()) {
                    (Ok(main), Ok(rest)) => {
                        (ring.filter, ring.complement) = (for_kernel(&main), for_kernel(&rest))
                    }
                    _ => is_alone = true,
                }
            }
            Some(_) => is_alone = true,
        }
        Ok(Self { program, is_alone, filtered: 0, drops_before: 0 })
    }

    /// Whether there is a filter.
    pub(super) fn is_active(&self) -> bool {
        self.program.is_some()
    }

    /// Whether a packet of the held block is wanted; counts it if it is not.
    #[inline]
    pub(super) fn wants(&mut self, packet: &mut RingPacket, block: &[u8]) -> bool {
        let Some(program) = &self.program else { return true };
        if self.is_alone || packet.marks.had_stripped_tag() {
            let start = packet.offset as usize;
            let bytes = &block[start..start + packet.length as usize];
            if program.run(bytes, packet.original_length) == 0 {
                self.filtered += 1;
                self.drops_before += packet.drops_before;
                return false;
            }
        }
        packet.drops_before += std::mem::take(&mut self.drops_before);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burstline_sys::afpacket::{Fanout, FanoutMode};

    fn options(filter: &str, ring: RingOptions) -> (Judge, RingOptions) {
        let (filter, mut ring) = (filter.parse().unwrap(), ring);
        let link = LinkType::ETHERNET;
        let judge = Judge::new(&filter, "afpacket:v0", link, Some(96), &mut ring).unwrap();
        (judge, ring)
    }

    #[test]
    fn a_snapshot_length_is_the_kernels_work() {
        let (judge, ring) = options("", RingOptions::default());
        assert_eq!((ring.filter, ring.complement), (vec![Instruction::keep(96)], vec![]));
        assert!(!judge.is_active());
    }

    #[test]
    fn the_kernel_filters_where_the_rest_can_be_counted() {
        let (judge, ring) = options("40 0 0 12\n22 0 0 0", RingOptions::default());
        assert!(!judge.is_alone && !ring.filter.is_empty() && !ring.complement.is_empty());
        let fanout = Some(Fanout { mode: FanoutMode::Hash, group: 1 });
        let group = RingOptions { fanout, ..RingOptions::default() };
        // Divides by X, which has no complement.
        for (filter, ring) in [("6 0 0 1", group), ("60 0 0 0\n22 0 0 0", RingOptions::default())] {
            let (judge, ring) = options(filter, ring);
            assert!(judge.is_alone && ring.filter.is_empty() && ring.complement.is_empty());
        }
    }
}
