//! The interface that the host depends on is not taken by accident.

use std::net::{TcpListener, TcpStream};

use burstline_port::{OpenOptions, PortError};
use burstline_testbed::{Bed, FAR, FAR_ADDRESS, NEAR_ADDRESS};

use crate::help::{bed_or_skip, try_open};

/// Checks that it is refused with this reason, unless forced.
fn check_refused(bed: &Bed, expected: &str) {
    let address = format!("xdp:{FAR}");
    let error = try_open(&bed.far, &address, OpenOptions::default()).err().unwrap();
    assert!(matches!(error, PortError::WouldSteal { .. }), "{error}");
    assert_eq!(
        error.to_string(),
        format!(
            "xdp:v1 takes packets away from the host, and {expected}: use afpacket:v1, or --steal \
             to do it anyway, with --only EXPR to take only some"
        )
    );
    let options = OpenOptions { may_steal: true, ..OpenOptions::default() };
    drop(try_open(&bed.far, &address, options).unwrap());
}

#[test]
fn the_default_routes_interface_is_refused() {
    let Some(bed) = bed_or_skip() else { return };
    bed.far.command("ip", &["route", "add", "default", "via", NEAR_ADDRESS]).unwrap();
    check_refused(&bed, "the host uses it for the default route");
    // Another interface of the same host is free.
    bed.connect("w0", "w1", 1500).unwrap();
    drop(try_open(&bed.far, "xdp:w1", OpenOptions::default()).unwrap());
}

/// The kernel also knows it by an alternative name, and by the label of an address.
#[test]
fn it_is_refused_by_its_other_names() {
    let Some(bed) = bed_or_skip() else { return };
    let ip = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        bed.far.command("ip", &words).unwrap();
    };
    ip(&format!("route add default via {NEAR_ADDRESS}"));
    ip(&format!("link property add dev {FAR} altname another"));
    for name in ["another", "v1:1"] {
        let options = OpenOptions::default();
        let error = try_open(&bed.far, &format!("xdp:{name}"), options).err().unwrap();
        let PortError::WouldSteal { interface, .. } = &error else { panic!("{error}") };
        assert_eq!(interface, FAR);
    }
}

#[test]
fn an_interface_with_a_login_is_refused() {
    let Some(bed) = bed_or_skip() else { return };
    let listener = bed.far.run(|| TcpListener::bind((FAR_ADDRESS, 22)).unwrap());
    drop(try_open(&bed.far, &format!("xdp:{FAR}"), OpenOptions::default()).unwrap());
    let client = bed.near.run(|| TcpStream::connect((FAR_ADDRESS, 22)).unwrap());
    let server = listener.accept().unwrap();
    check_refused(&bed, "an SSH login uses its address 10.77.0.2");
    drop((client, server));
}

#[test]
fn what_carries_the_default_route_is_refused() {
    let Some(bed) = bed_or_skip() else { return };
    let ip = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        bed.far.command("ip", &words).unwrap();
    };
    ip("link add br0 type bridge");
    ip("link set br0 up");
    drop(try_open(&bed.far, &format!("xdp:{FAR}"), OpenOptions::default()).unwrap());
    ip(&format!("link set {FAR} master br0"));
    ip("address add 10.78.0.1/24 dev br0");
    drop(try_open(&bed.far, &format!("xdp:{FAR}"), OpenOptions::default()).unwrap());
    ip("route add default via 10.78.0.2");
    check_refused(&bed, "the host uses it for the default route, through br0 on top of it");
}
