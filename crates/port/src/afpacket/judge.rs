//! Decides who filters a packet: the kernel, or the port.
//!
//! | packet | filtered by | counted by |
//! |---|---|---|
//! | unmodified | the kernel, before the copy | a second socket, with the complement program |
//! | without its VLAN tag | the port, after restoring the tag | the port |
//! | any, in a fanout group or from an inherited socket | the port | the port |
//!
//! A second socket would see the packets of all members of a fanout group, so there the kernel
//! filters nothing. A process that inherited its socket may not open a second one. The port also
//! filters if the kernel does not accept the program's complement.

use burstline_afpacket::RingOptions;
use burstline_sys::filter::Instruction;
use burstline_wire::headers::LinkType;

use crate::filter::for_kernel;
use crate::{Filter, PortError};

/// Sets the kernel's part of a filter, and the snapshot length. Returns whether the kernel filters
/// nothing, so that the port judges each packet.
pub(super) fn share_out(
    filter: &Filter,
    port: &str,
    link: LinkType,
    snapshot_bytes: Option<u32>,
    ring: &mut RingOptions,
) -> Result<bool, PortError> {
    let keep_bytes = snapshot_bytes.map(|bytes| bytes.max(1));
    let Some(program) = filter.compile(port, link)? else {
        ring.filter = keep_bytes.map(Instruction::keep).into_iter().collect();
        return Ok(false);
    };
    if ring.fanout.is_some() || ring.inherited.is_some() {
        return Ok(true);
    }
    let main = program.for_packet_socket(keep_bytes.unwrap_or(u32::MAX));
    let (Ok(main), Ok(rest)) = (main, program.complement_for_packet_socket()) else {
        return Ok(true);
    };
    (ring.filter, ring.complement) = (for_kernel(&main), for_kernel(&rest));
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use burstline_afpacket::{Fanout, FanoutMode};

    fn options(filter: &str, ring: RingOptions) -> (bool, RingOptions) {
        let (filter, mut ring) = (filter.parse().unwrap(), ring);
        let link = LinkType::ETHERNET;
        let is_alone = share_out(&filter, "afpacket:v0", link, Some(96), &mut ring).unwrap();
        (is_alone, ring)
    }

    #[test]
    fn a_snapshot_length_is_the_kernels_work() {
        let (is_alone, ring) = options("", RingOptions::default());
        assert_eq!((ring.filter, ring.complement), (vec![Instruction::keep(96)], vec![]));
        assert!(!is_alone);
    }

    #[test]
    fn the_kernel_filters_where_the_rest_can_be_counted() {
        let (is_alone, ring) = options("40 0 0 12\n22 0 0 0", RingOptions::default());
        assert!(!is_alone && !ring.filter.is_empty() && !ring.complement.is_empty());
        let fanout = Some(Fanout { mode: FanoutMode::Hash, group: 1 });
        let group = RingOptions { fanout, ..RingOptions::default() };
        // Divides by X; the complement is rejected.
        for (filter, ring) in [("6 0 0 1", group), ("60 0 0 0\n22 0 0 0", RingOptions::default())] {
            let (is_alone, ring) = options(filter, ring);
            assert!(is_alone && ring.filter.is_empty() && ring.complement.is_empty());
        }
    }
}
