//! Relations between interfaces: the ports of a bridge or bond, the carrier of a VLAN, and the
//! other end of a veth pair.
//!
//! Queried over netlink, which answers for the calling thread's network namespace. `/sys` shows the
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

/// Kinds whose `IFLA_LINK` is the interface that carries their packets. For others it is something
/// else: a veth's peer, a tunnel's preferred interface.
const KINDS_ON_ANOTHER: [&[u8]; 6] =
    [b"vlan", b"macvlan", b"macvtap", b"ipvlan", b"ipvtap", b"macsec"];

/// An interface's relations to others.
struct Link {
    name: String,
    /// The bridge or bond that it is a port of.
    master: Option<u32>,
    /// The interface that carries its packets.
    below: Option<u32>,
}

/// Returns the names of `interface` and of all interfaces on top of it, directly or not: the
/// receivers of its packets. Only `interface` if the others cannot be queried.
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

/// Returns all interfaces by index. An interface that disappears during the query is left out.
fn links() -> BTreeMap<u32, Link> {
    let known = names().into_iter().filter_map(|(index, name)| {
        let (master, below) = place(index).ok()?;
        Some((index, Link { name, master, below }))
    });
    known.collect()
}

/// Queries an interface of this network namespace, or of another one given by its number.
fn link(index: u32, namespace: Option<u32>) -> io::Result<Vec<u8>> {
    let mut question = vec![0; FIXED_BYTES];
    question[INDEX_AT..INDEX_AT + 4].copy_from_slice(&index.to_ne_bytes());
    if let Some(namespace) = namespace {
        question.extend(attribute(TARGET_NAMESPACE, &namespace.to_ne_bytes()));
    }
    ask(libc::NETLINK_ROUTE, libc::RTM_GETLINK, &question)
}

/// Returns the kind of a software interface.
fn kind_of(attributes: &[u8]) -> Option<&[u8]> {
    let info = find(attributes, |kind| kind == libc::IFLA_LINKINFO)?;
    let (_, kind) = find(info, |kind| kind == INFO_KIND)?.split_last()?;
    Some(kind)
}

/// Returns the master of an interface, and the interface that carries its packets.
fn place(index: u32) -> io::Result<(Option<u32>, Option<u32>)> {
    let answer = link(index, None)?;
    let attributes = answer.get(FIXED_BYTES..).ok_or_else(malformed)?;
    let number = |wanted| find(attributes, |kind| kind == wanted).and_then(word);
    let is_on_another = kind_of(attributes).is_some_and(|kind| KINDS_ON_ANOTHER.contains(&kind));
    // The index of an interface in another namespace is valid only there.
    let is_here = find(attributes, |kind| kind == libc::IFLA_LINK_NETNSID).is_none();
    let below = number(libc::IFLA_LINK).filter(|_| is_on_another && is_here);
    Ok((number(libc::IFLA_MASTER), below))
}

/// The other end of a veth pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VethPeer {
    /// Its name; `None` if this process may not look into its network namespace.
    pub name: Option<String>,
    /// Whether it is in the calling thread's network namespace.
    pub is_here: bool,
}

/// Returns the other end of the veth pair of the interface with this index. `None` if it is not a
/// veth, or cannot be queried.
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
        // SAFETY: an entry without a name ends the list, and we have not passed it.
        let libc::if_nameindex { if_index, if_name } = unsafe { *entry };
        if if_name.is_null() {
            break;
        }
        // SAFETY: the name is a C string of that list.
        let name = unsafe { CStr::from_ptr(if_name) };
        names.push((if_index, name.to_string_lossy().into_owned()));
        // SAFETY: this was not the last entry, so there is a next one.
        entry = unsafe { entry.add(1) };
    }
    // SAFETY: `list` comes from if_nameindex, and nothing in it is used after this.
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
