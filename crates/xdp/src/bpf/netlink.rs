//! Asks rtnetlink which XDP program is attached to an interface.
//!
//! Request and answer begin with an `ifinfomsg` of 16 bytes; attributes follow.
//!
//! Source: rtnetlink(7); rtnl_xdp_fill, net/core/rtnetlink.c.

use std::io;

use super::mode::{Attached, XdpMode};
use burstline_sys::netlink::{self, find, malformed, word};

const LINK_BYTES: usize = 16;

/// Attributes: the attachment and its mode. Source: include/uapi/linux/if_link.h.
const IFLA_XDP: u16 = 43;
const IFLA_XDP_ATTACHED: u16 = 2;
const IFLA_XDP_PROGRAM_ID: u16 = 4;
/// If several modes have programs at a time, each has its attribute: driver, generic, device.
const IFLA_XDP_MODE_IDS: std::ops::RangeInclusive<u16> = 5..=7;

/// Returns the program attached to an interface. `ENODEV` if there is no such interface.
pub(super) fn attached(interface_index: u32) -> io::Result<Option<Attached>> {
    // Family and type of the interface are 0: any.
    let mut question = vec![0; LINK_BYTES];
    question[4..8].copy_from_slice(&interface_index.to_ne_bytes());
    let body = netlink::ask(libc::NETLINK_ROUTE, libc::RTM_GETLINK, &question)?;
    parse(&body)
}

fn parse(body: &[u8]) -> io::Result<Option<Attached>> {
    let attributes = body.get(LINK_BYTES..).ok_or_else(malformed)?;
    let Some(xdp) = find(attributes, |kind| kind == IFLA_XDP) else { return Ok(None) };
    // Source: XDP_ATTACHED_, include/uapi/linux/if_link.h.
    let mode = match find(xdp, |kind| kind == IFLA_XDP_ATTACHED) {
        Some([0, ..]) | None => return Ok(None),
        Some([1, ..]) => XdpMode::Native,
        Some([2, ..]) => XdpMode::Generic,
        Some(_) => XdpMode::Auto,
    };
    let id = find(xdp, |kind| kind == IFLA_XDP_PROGRAM_ID)
        .or_else(|| find(xdp, |kind| IFLA_XDP_MODE_IDS.contains(&kind)));
    Ok(id.and_then(word).map(|program_id| Attached { program_id, mode }))
}
