//! Which interface lies on which: a bridge or bond on its ports, a VLAN on what carries it. And
//! which is the other end of a veth pair.
//!
//! Asked over netlink, which answers for the calling thread's network namespace; `/sys` shows the
//! one that it was mounted in.
//!
//! Source: rtnetlink(7); `IFLA_` of include/uapi/linux/if_link.h.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::io;

use crate::netlink::{ask, attribute, find, malformed, word};

/// `struct ifinfomsg`: family, padding, type, index, flags, change.
const FIXED_BYTES: usize = 16;
const INDEX_AT: usize = 4;
/// Source: `IFLA_INFO_KIND`.
const INFO_KIND: u16 = 1;
/// Source: `IFLA_TARGET_NETNSID`, Linux 4.20.
const TARGET_NAMESPACE: u16 = 46;

/// Kinds whose `IFLA_LINK` is the interface that they send and receive by. Others name something
/// else there: a veth its peer, a tunnel one that it prefers.
const KINDS_ON_ANOTHER: [&[u8]; 6] =
    [b"vlan", b"macvlan", b"macvtap", b"ipvlan", b"ipvtap", b"macsec"];

/// What is known of an interface's place among the others.
struct Link {
    name: String,
    /// The bridge or bond that it is a port of.
    master: Option<u32>,
    /// What it is on.
    below: Option<u32>,
}

/// The names of `interface` and of all that are on it, directly or not: what its packets are for.
/// `interface` alone where the others cannot be asked.
pub fn carried_by(interface: &str) -> Vec<String> {
    carried(&links(), interface)
}

fn carried(links: &BTreeMap<u32, Link>, interface: &str) -> Vec<String> {
    let mut names = vec![interface.to_owned()];
    let mut at = 0;
    while at < names.len() {
        let found = links.iter().find(|(_, link)| link.name == names[at]);
        if let Some((&index, link)) = found {
            let above = links.iter().filter(|&(&other, upper)| {
                link.master == Some(other) || upper.below == Some(index)
            });
            for (_, upper) in above {
                if !names.contains(&upper.name) {
                    names.push(upper.name.clone());
                }
            }
        }
        at += 1;
    }
    names
}

/// All interfaces, by index; one that goes away while we ask is left out.
fn links() -> BTreeMap<u32, Link> {
    let known = names().into_iter().filter_map(|(index, name)| {
        let (master, below) = place(index).ok()?;
        Some((index, Link { name, master, below }))
    });
    known.collect()
}

/// What the kernel says of an interface, of this network namespace or of another by its number.
fn link(index: u32, namespace: Option<u32>) -> io::Result<Vec<u8>> {
    let mut question = vec![0; FIXED_BYTES];
    question[INDEX_AT..INDEX_AT + 4].copy_from_slice(&index.to_ne_bytes());
    if let Some(namespace) = namespace {
        question.extend(attribute(TARGET_NAMESPACE, &namespace.to_ne_bytes()));
    }
    ask(libc::NETLINK_ROUTE, libc::RTM_GETLINK, &question)
}

/// The kind of an interface that is made of software.
fn kind_of(attributes: &[u8]) -> Option<&[u8]> {
    let info = find(attributes, |kind| kind == libc::IFLA_LINKINFO)?;
    let (_, kind) = find(info, |kind| kind == INFO_KIND)?.split_last()?;
    Some(kind)
}

/// The master of an interface, and what it is on.
fn place(index: u32) -> io::Result<(Option<u32>, Option<u32>)> {
    let answer = link(index, None)?;
    let attributes = answer.get(FIXED_BYTES..).ok_or_else(malformed)?;
    let number = |wanted| find(attributes, |kind| kind == wanted).and_then(word);
    let is_on_another = kind_of(attributes).is_some_and(|kind| KINDS_ON_ANOTHER.contains(&kind));
    // An interface of another namespace has a number of that one.
    let is_here = find(attributes, |kind| kind == libc::IFLA_LINK_NETNSID).is_none();
    let below = number(libc::IFLA_LINK).filter(|_| is_on_another && is_here);
    Ok((number(libc::IFLA_MASTER), below))
}

/// The other end of a veth pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VethPeer {
    /// Its name; `None` where it is in a network namespace that this process may not look into.
    pub name: Option<String>,
    /// Whether it is in the calling thread's network namespace.
    pub is_here: bool,
}

/// The other end of the veth pair that the interface with this number belongs to. `None`: it is
/// none, or it cannot be asked.
pub fn veth_peer(index: u32) -> Option<VethPeer> {
    let answer = link(index, None).ok()?;
    let attributes = answer.get(FIXED_BYTES..)?;
    let number = |wanted| find(attributes, |kind| kind == wanted).and_then(word);
    if kind_of(attributes) != Some(b"veth") {
        return None;
    }
    let namespace = number(libc::IFLA_LINK_NETNSID);
    let peer = link(number(libc::IFLA_LINK)?, namespace);
    let name = peer.ok().and_then(|answer| {
        let name = find(answer.get(FIXED_BYTES..)?, |kind| kind == libc::IFLA_IFNAME)?;
        Some(CStr::from_bytes_until_nul(name).ok()?.to_string_lossy().into_owned())
    });
    Some(VethPeer { name, is_here: namespace.is_none() })
}

fn names() -> Vec<(u32, String)> {
    // SAFETY: takes nothing, returns a list or null.
    let list = unsafe { libc::if_nameindex() };
    if list.is_null() {
        return Vec::new();
    }
    let mut names = Vec::new();
    let mut entry = list;
    loop {
        // SAFETY: the list ends with an entry that has no name, and we have not passed it.
        let libc::if_nameindex { if_index, if_name } = unsafe { *entry };
        if if_name.is_null() {
            break;
        }
        // SAFETY: a C string of that list.
        let name = unsafe { CStr::from_ptr(if_name) };
        names.push((if_index, name.to_string_lossy().into_owned()));
        // SAFETY: there is a next entry, as this was not the last.
        entry = unsafe { entry.add(1) };
    }
    // SAFETY: what if_nameindex returned; nothing of it is used after this.
    unsafe { libc::if_freenameindex(list) };
    names
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    fn link(name: &str, master: Option<u32>, below: Option<u32>) -> Link {
        Link { name: name.to_owned(), master, below }
    }

    #[test]
    fn what_is_on_an_interface_is_found_at_any_height_and_once() {
        let links = BTreeMap::from([
            (1, link("lo", None, None)),
            (2, link("eth0", Some(4), None)),
            (3, link("eth1", Some(4), None)),
            (4, link("bond0", None, None)),
            (5, link("bond0.7", Some(6), Some(4))),
            (6, link("br0", None, Some(2))),
        ]);
        assert_eq!(carried(&links, "eth0"), ["eth0", "bond0", "br0", "bond0.7"]);
        assert_eq!(carried(&links, "br0"), ["br0"]);
        assert_eq!(carried(&links, "eth9"), ["eth9"]);
    }

    #[test]
    fn the_loopback_carries_itself() {
        assert!(links().values().any(|link| link.name == "lo"));
        assert_eq!(carried_by("lo"), ["lo"]);
    }
}
