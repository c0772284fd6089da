//! The far end of an emulated card's cable: packets of a pcap stream, one per datagram.
//!
//! ```text
//!   burstline generate -o 'file:-?format=pcap' | wire send CARD          to the guest
//!   wire receive CABLE 2000 | burstline count - --expect 2000            from the guest
//! ```
//!
//! QEMU's `-netdev dgram` treats each datagram as a frame. CARD and CABLE are Unix sockets of QEMU
//! and of this program. A sender waits while the other end has no room, so nothing is lost.
#![forbid(unsafe_code)]

use std::error::Error;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::net::UnixDatagram;
use std::process::ExitCode;
use std::time::Duration;
use std::{env, fs};

/// Timeout for a card that takes no frame, and for a guest that sends none.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long to wait for frames after the last expected one.
const SURPLUS: Duration = Duration::from_millis(500);

/// A file's header: magic, version 2.4, zone, accuracy, longest packet, Ethernet.
/// Source: draft-ietf-opsawg-pcap, section 4.
const HEADER: [u32; 6] = [0xa1b2_c3d4, 0x0004_0002, 0, 0, 0x0004_0000, 1];

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["send", card] => send(card),
        ["receive", cable, packets] => receive(cable, packets),
        _ => Err("usage: wire send CARD <PCAP, or wire receive CABLE PACKETS >PCAP".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("wire: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Sends all packets from standard input, and prints their number.
fn send(card: &str) -> Result<(), Box<dyn Error>> {
    let mut input = BufReader::new(io::stdin().lock());
    let mut header = [0; 24];
    input.read_exact(&mut header)?;
    if header[..4] != HEADER[0].to_le_bytes() {
        return Err("standard input is no pcap file of this byte order with microseconds".into());
    }
    let socket = UnixDatagram::unbound()?;
    socket.connect(card)?;
    socket.set_write_timeout(Some(PATIENCE))?;
    let (mut packets, mut bytes) = (0, 0);
    while let Some(packet) = next(&mut input)? {
        match socket.send(&packet) {
            Ok(_) => {}
            Err(error) if is_late(&error) => break,
            Err(error) => return Err(error.into()),
        }
        packets += 1;
        bytes += packet.len();
    }
    println!("{packets} packets, {bytes} bytes");
    Ok(())
}

/// Reads the next packet of a pcap file, or `None` at its end.
fn next(input: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut record = [0; 16];
    match input.read_exact(&mut record) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let [.., a, b, c, d, _, _, _, _] = record;
    let mut packet = vec![0; u32::from_le_bytes([a, b, c, d]) as usize];
    input.read_exact(&mut packet)?;
    Ok(Some(packet))
}

/// Writes received packets to standard output, until the expected number has come and none follow.
fn receive(cable: &str, packets: &str) -> Result<(), Box<dyn Error>> {
    let expected: u64 = packets.parse()?;
    // An earlier run may have left the socket.
    let _ = fs::remove_file(cable);
    let socket = UnixDatagram::bind(cable)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let mut output = BufWriter::new(io::stdout().lock());
    for word in HEADER {
        output.write_all(&word.to_le_bytes())?;
    }
    let mut packet = vec![0; 1 << 16];
    let mut received = 0;
    loop {
        let length = match socket.recv(&mut packet) {
            Ok(length) => length,
            Err(error) if is_late(&error) => break,
            Err(error) => return Err(error.into()),
        };
        // Times do not matter here: 0.
        for word in [0, 0, length as u32, length as u32] {
            output.write_all(&word.to_le_bytes())?;
        }
        output.write_all(&packet[..length])?;
        received += 1;
        if received >= expected {
            socket.set_read_timeout(Some(SURPLUS))?;
        }
    }
    fs::remove_file(cable)?;
    Ok(output.flush()?)
}

fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}
