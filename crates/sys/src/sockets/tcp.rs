//! TCP connections that one thread begins and another uses.
//!
//! A thread that may connect need not read what the peer sends, and a thread that reads need not be
//! allowed to connect.
//!
//! Source: connect(2), `EINPROGRESS`; tcp(7).

use std::io;
use std::net::{SocketAddr, TcpStream};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

/// Begins a connection to `address`, and waits for nothing. The first read or write waits until
/// the connection is made, at most for its timeout. It also reports why there is none.
///
/// # Errors
/// Errors from the kernel: no descriptor is available, or the address is refused at once.
pub fn begin_connection(address: SocketAddr) -> io::Result<TcpStream> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    match rustix::net::connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => {}
        Err(error) => return Err(error.into()),
    }
    let stream = TcpStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_begun_connection_is_used_as_any_other() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut here = begin_connection(listener.local_addr().unwrap()).unwrap();
        here.write_all(b"ask").unwrap();
        let (mut there, _) = listener.accept().unwrap();
        let mut room = [0; 3];
        there.read_exact(&mut room).unwrap();
        assert_eq!(&room, b"ask");
    }

    #[test]
    fn where_nobody_accepts_the_first_write_waits_and_the_call_does_not() {
        // Linux refuses what the backlog has no room for by silence.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let address = listener.local_addr().unwrap();
        let begun = Instant::now();
        let all: Vec<_> = (0..8).map(|_| begin_connection(address).unwrap()).collect();
        assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
        let mut last = all.last().unwrap();
        last.set_write_timeout(Some(Duration::from_millis(50))).unwrap();
        assert_eq!(last.write(b"ask").unwrap_err().kind(), io::ErrorKind::WouldBlock);
        let gone = begin_connection(listener.local_addr().unwrap()).unwrap();
        drop((listener, all));
        gone.set_write_timeout(Some(Duration::from_secs(60))).unwrap();
        assert!((&gone).write_all(b"ask").and_then(|()| (&gone).read(&mut [0])).is_err());
    }
}
