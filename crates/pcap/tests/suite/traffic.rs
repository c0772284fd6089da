//! Generates traffic that sensors report: DNS, HTTP with its handshake, ARP, and more.

use std::time::{SystemTime, UNIX_EPOCH};

#[derive(Clone, Debug)]
pub(crate) struct Packet {
    pub(crate) time_ns: u64,
    pub(crate) bytes: Vec<u8>,
}

const FIRST_NS: u64 = 1_700_000_000_123_456_789;

/// Returns a mix of `count` packets; each conversation has its own addresses. Tens are complete.
pub(crate) fn mix(count: usize) -> Vec<Packet> {
    let frames = (0_u8..=255).cycle().enumerate().flat_map(|(number, host)| {
        let port = 20_000 + (number % 40_000) as u16;
        match number % 3 {
            0 => vec![arp(host)],
            1 => vec![udp(host, port, 53, &dns_query(number as u16))],
            _ => http(host, port),
        }
    });
    let stamped = frames.take(count).enumerate().map(|(number, bytes)| {
        let time_ns = FIRST_NS + number as u64 * 1_000_700;
        Packet { time_ns, bytes }
    });
    stamped.collect()
}

/// Returns the mix with current times: live programs expire flows by their own clock.
pub(crate) fn mix_of_now(count: usize) -> Vec<Packet> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let mut packets = mix(count);
    for packet in &mut packets {
        packet.time_ns = packet.time_ns - FIRST_NS + now;
    }
    packets
}

fn ethernet(kind: u16, rest: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    frame.extend(kind.to_be_bytes());
    frame.extend(rest);
    frame.resize(frame.len().max(60), 0);
    frame
}

fn arp(host: u8) -> Vec<u8> {
    let sender = [2, 0, 0, 0, 1, host];
    let mut body = vec![0, 1, 8, 0, 6, 4, 0, 2];
    body.extend(sender);
    body.extend([10, 1, 0, host, 2, 0, 0, 0, 0, 1, 10, 1, 0, 1]);
    let mut frame = ethernet(0x806, &body);
    frame[6..12].copy_from_slice(&sender);
    frame
}

fn ip(protocol: u8, host: u8, is_answer: bool, body: &[u8]) -> Vec<u8> {
    let ends = [[10, 0, 0, host], [192, 0, 2, 1]];
    let [from, to] = if is_answer { [ends[1], ends[0]] } else { ends };
    let mut head = vec![0x45, 0];
    head.extend((20 + body.len() as u16).to_be_bytes());
    head.extend([0, 1, 0x40, 0, 64, protocol, 0, 0]);
    head.extend(from);
    head.extend(to);
    let sum = checksum(&head);
    head[10..12].copy_from_slice(&sum.to_be_bytes());
    let mut pseudo = [from, to].concat();
    pseudo.extend([0, protocol]);
    pseudo.extend((body.len() as u16).to_be_bytes());
    pseudo.extend(body);
    let at = if protocol == 6 { 16 } else { 6 };
    let mut body = body.to_vec();
    let sum = checksum(&pseudo);
    body[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    ethernet(0x800, &[head, body].concat())
}

/// Source: RFC 1071.
fn checksum(bytes: &[u8]) -> u16 {
    let words =
        bytes.chunks(2).map(|two| u32::from(two[0]) << 8 | two.get(1).map_or(0, |&b| b.into()));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

fn udp(host: u8, from: u16, to: u16, payload: &[u8]) -> Vec<u8> {
    let mut body = [from.to_be_bytes(), to.to_be_bytes()].concat();
    body.extend((8 + payload.len() as u16).to_be_bytes());
    body.extend([0, 0]);
    body.extend(payload);
    ip(17, host, false, &body)
}

fn dns_query(id: u16) -> Vec<u8> {
    let mut query = id.to_be_bytes().to_vec();
    query.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    query.extend(b"\x07example\x03com\0\0\x01\0\x01");
    query
}

/// Returns a handshake, a request and its answer, and the closing of the connection.
fn http(host: u8, port: u16) -> Vec<Vec<u8>> {
    let request = b"GET / HTTP/1.1\r\nHost: example.com\r\nUser-Agent: curl/7.88.1\r\n\r\n";
    let answer = b"HTTP/1.1 200 OK\r\nServer: nginx\r\nContent-Length: 2\r\n\r\nok";
    let options = [2, 4, 5, 0xb4, 1, 3, 3, 7]; // MSS, no-op, window scale
    let (fin, syn, ack, push) = (17, 2, 16, 24);
    let next = 1001 + request.len() as u32;
    let last = 5001 + answer.len() as u32;
    let tcp = |is_answer, sequence, acknowledged, flags, options: &[u8], payload: &[u8]| {
        let (from, to) = if is_answer { (80, port) } else { (port, 80) };
        let mut body = [from.to_be_bytes(), to.to_be_bytes()].concat();
        body.extend(u32::to_be_bytes(sequence));
        body.extend(u32::to_be_bytes(acknowledged));
        body.extend([(((20 + options.len()) / 4) << 4) as u8, flags, 0xfa, 0xf0, 0, 0, 0, 0]);
        body.extend(options);
        body.extend(payload);
        ip(6, host, is_answer, &body)
    };
    vec![
        tcp(false, 1000, 0, syn, &options, b""),
        tcp(true, 5000, 1001, syn | ack, &options, b""),
        tcp(false, 1001, 5001, ack, &[], b""),
        tcp(false, 1001, 5001, push, &[], request),
        tcp(true, 5001, next, push, &[], answer),
        tcp(false, next, last, fin, &[], b""),
        tcp(true, last, next + 1, fin, &[], b""),
        tcp(false, next + 1, last + 1, ack, &[], b""),
    ]
}

/// Encodes a pcap file with nanoseconds. Source: draft-ietf-opsawg-pcap.
pub(crate) fn pcap_file(packets: &[Packet]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_3c4d_u32, 0x0004_0002, 0, 0, 262_144, 1] {
        file.extend(word.to_le_bytes());
    }
    for Packet { time_ns, bytes } in packets {
        let length = bytes.len() as u32;
        let words = [(time_ns / 1_000_000_000) as u32, (time_ns % 1_000_000_000) as u32];
        for word in words.into_iter().chain([length, length]) {
            file.extend(word.to_le_bytes());
        }
        file.extend(bytes);
    }
    file
}
