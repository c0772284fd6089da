//! Guards against accidental use of an interface that the host itself uses, or one that carries it.
//! For example, a port of the host's bridge or bond carries it, or the base of its VLANs.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use burstline_sys::interface::{Interface, addresses};
use burstline_sys::links;

use crate::afpacket::LOOPBACK;
use crate::{Address, PortError};

/// TCP's number for an open connection. Source: include/net/tcp_states.h.
const ESTABLISHED: &str = "01";

/// The port of SSH.
const SSH: u16 = 22;

/// Refuses the loopback, and an interface that receives packets of the default route or of a user's
/// login. Packets received through an interface on top of it count, too.
///
/// # Errors
/// [`PortError::WouldSteal`] with the reason.
pub(super) fn refuse_the_hosts_own(link: &Interface, address: &Address) -> Result<(), PortError> {
    let refuse = |reason: String| {
        let (interface, port) = (link.name.clone(), address.to_string());
        Err(PortError::WouldSteal { interface, reason, port })
    };
    if link.hardware_type == LOOPBACK {
        return refuse("programs of the host use it".to_owned());
    }
    let carried = links::carried_by(&link.name);
    let on_it = |name: &str| match name == link.name {
        true => String::new(),
        false => format!(", through {name} on top of it"),
    };
    if let Some(name) = default_routes().iter().find(|&name| carried.contains(name)) {
        return refuse(format!("the host uses it for the default route{}", on_it(name)));
    }
    let logins = login_addresses();
    let ours = addresses();
    let login = ours.iter().find(|(name, at)| carried.contains(name) && logins.contains(at));
    match login {
        Some((name, at)) => refuse(format!("an SSH login uses its address {at}{}", on_it(name))),
        None => Ok(()),
    }
}

/// Returns the interfaces of default routes.
fn default_routes() -> Vec<String> {
    let read = |file| fs::read_to_string(format!("/proc/thread-self/net/{file}"));
    let mut names = ipv4_default_routes(&read("route").unwrap_or_default());
    names.extend(ipv6_default_routes(&read("ipv6_route").unwrap_or_default()));
    names
}

/// Source: net/ipv4/fib_trie.c, fib_route_seq_show: name, destination, ..., mask in column 8.
fn ipv4_default_routes(table: &str) -> Vec<String> {
    let rows = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.filter(|row| row.get(1) == Some(&"00000000") && row.get(7) == Some(&"00000000"))
        .map(|row| row[0].to_owned())
        .collect()
}

/// Source: net/ipv6/route.c, rt6_info_route: destination, its length, ..., name in column 10. The
/// kernel keeps its own rejecting default route on the loopback.
fn ipv6_default_routes(table: &str) -> Vec<String> {
    let rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.filter(|row| row.get(1) == Some(&"00") && row.get(9).is_some_and(|&name| name != "lo"))
        .map(|row| row[9].to_owned())
        .collect()
}

/// Returns our address of every open connection to our SSH port.
fn login_addresses() -> Vec<IpAddr> {
    let read = |file| fs::read_to_string(format!("/proc/thread-self/net/{file}"));
    let tables = [read("tcp").unwrap_or_default(), read("tcp6").unwrap_or_default()];
    tables.iter().flat_map(|table| table.lines().skip(1)).filter_map(login_address).collect()
}

/// Source: net/ipv4/tcp_ipv4.c, get_tcp4_sock: number, local, remote, state; an address is in
/// 32-bit words of this machine's byte order, a port is a number.
fn login_address(line: &str) -> Option<IpAddr> {
    let mut columns = line.split_whitespace().skip(1);
    let (address, port) = columns.next()?.split_once(':')?;
    let state = columns.nth(1)?;
    if u16::from_str_radix(port, 16).ok()? != SSH || state != ESTABLISHED {
        return None;
    }
    let words = address.as_bytes().chunks(8).map(|word| {
        let word = u32::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok()?;
        Some(word.to_ne_bytes())
    });
    let bytes = words.collect::<Option<Vec<_>>>()?.concat();
    match bytes.len() {
        4 => Some(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?).into()),
        16 => Some(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).to_canonical()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_route_is_one_with_no_mask() {
        let table = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\n\
                     eth0\t00000000\t0101A8C0\t0003\t0\t0\t0\t00000000\t0\n\
                     eth1\t0001A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\n\
                     tun0\t00000000\t00000000\t0001\t0\t0\t0\t00000080\t0\n";
        assert_eq!(ipv4_default_routes(table), ["eth0"]);
        let zero = "0".repeat(32);
        let row = |length, name| {
            format!("{zero} {length} {zero} 00 {zero} 00000400 00000001 0 00000003 {name}\n")
        };
        let table = [row("00", "eth2"), row("40", "eth3"), row("00", "lo")].concat();
        assert_eq!(ipv6_default_routes(&table), ["eth2"]);
    }

    #[test]
    fn a_login_is_an_open_connection_to_port_22() {
        let line = |local, state| format!("   0: {local} 0201A8C0:D2F0 {state} 00000000:0 00:0 0");
        if cfg!(target_endian = "little") {
            let address: IpAddr = "192.168.1.5".parse().unwrap();
            assert_eq!(login_address(&line("0501A8C0:0016", "01")), Some(address));
            let mapped = "0000000000000000FFFF00000501A8C0:0016";
            assert_eq!(login_address(&line(mapped, "01")), Some(address));
        }
        assert_eq!(login_address(&line("0501A8C0:0016", "0A")), None, "only listening");
        assert_eq!(login_address(&line("0501A8C0:0050", "01")), None, "a web server");
        assert_eq!(login_address("nonsense"), None);
    }
}
