//! A web server that needs nothing installed.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

use crate::Host;

/// Answers every request on a port of `host` with `bytes` bytes, as long as the process lives.
/// Returns the listening address.
///
/// # Errors
/// Errors from the kernel when listening on `address`.
pub fn serve_bytes(host: &Host, address: &str, bytes: usize) -> io::Result<SocketAddr> {
    let address = format!("{address}:0");
    let listener = host.run(move || TcpListener::bind(address))?;
    let place = listener.local_addr()?;
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            // A client that disconnects is not our problem.
            let _ = answer(client, bytes);
        }
    });
    Ok(place)
}

fn answer(mut client: TcpStream, bytes: usize) -> io::Result<()> {
    for line in BufReader::new(client.try_clone()?).lines() {
        if line?.is_empty() {
            break;
        }
    }
    write!(client, "HTTP/1.0 200 OK\r\nContent-Length: {bytes}\r\n\r\n")?;
    client.write_all(&vec![b'x'; bytes])
}
