//! The courier thread, which owns the socket.
//!
//! UDP: the ICMP error from an absent collector is reported by the next send, and is about an
//! earlier message: the last message then counts as lost. Other losses on the way are not reported;
//! the collector sees a gap in the sequence numbers. If the kernel has no route, each message is
//! lost by name, and the next one tries again on a new socket: the old one is bound to a local
//! address that may have changed.
//!
//! TCP: without a connection the courier keeps one message and reconnects every second; the queue
//! fills in the meantime. Data written to a connection that then breaks may be lost in the kernels;
//! only the message that could not be written is counted.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use burstline_flow::{Made, Record};
use burstline_sys::privileges;

use super::message::Messages;
use super::sink::{Collector, Shared};

/// Interval of templates to a UDP collector, and of statistics to any.
const RESENT: Duration = Duration::from_secs(30);
/// How long a message waits for more records.
const LINGER: Duration = Duration::from_millis(500);
const CONNECT: Duration = Duration::from_secs(2);
const WRITE: Duration = Duration::from_secs(5);
/// Delay between connection attempts.
const RETRY: Duration = Duration::from_secs(1);
/// Interval for checking whether the job ends.
const LOOK: Duration = Duration::from_millis(20);
/// How long to wait for an ICMP error about the last message.
const LAST: Duration = Duration::from_millis(50);

/// Message sizes in bytes: one that fits into tunnels unfragmented, and one TCP write.
const UDP_BYTES: usize = 1400;
const TCP_BYTES: usize = 16 << 10;

/// An order from the sink.
pub(super) enum Order {
    Records(Vec<Record>),
    Made(Made),
}

/// Flow records and packets in a message.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    records: u64,
    packets: u64,
}

enum Way {
    Udp {
        socket: UdpSocket,
        /// Whether the kernel had a route at the last attempt.
        has_way: bool,
    },
    Tcp(Option<TcpStream>),
}

pub(super) struct Courier {
    collector: Collector,
    way: Way,
    messages: Messages,
    shared: Arc<Shared>,
    made: Made,
    /// Records in the current message, and its start time.
    load: Load,
    since: Instant,
    /// Records in the last sent message.
    last: Load,
    told: Option<Instant>,
    /// Whether the job ends without a reachable collector: no more attempts.
    is_given_up: bool,
}

impl Courier {
    /// Binds a socket; a TCP collector is connected later, and so is any without a route yet.
    pub(super) fn new(collector: Collector, shared: Arc<Shared>) -> io::Result<Self> {
        let (way, bytes) = match collector.is_tcp {
            true => (Way::Tcp(None), TCP_BYTES),
            false => {
                let socket = udp_socket(collector.address)?;
                let has_way = match socket.connect(collector.address) {
                    Err(error) if !is_outage(&error) => return Err(error),
                    connected => connected.inspect_err(|error| shared.note(error)).is_ok(),
                };
                (Way::Udp { socket, has_way }, UDP_BYTES)
            }
        };
        let messages = Messages::new(collector.domain, bytes);
        Ok(Self {
            collector,
            way,
            messages,
            shared,
            made: Made::default(),
            load: Load::default(),
            since: Instant::now(),
            last: Load::default(),
            told: None,
            is_given_up: false,
        })
    }

    /// Processes orders until the sink is closed.
    pub(super) fn run(mut self, orders: &Receiver<Order>) {
        // The job's own threads report it if this fails.
        let _ = privileges::give_up();
        loop {
            match orders.recv_timeout(LINGER) {
                Ok(Order::Records(records)) => {
                    records.iter().for_each(|record| self.add(record));
                }
                Ok(Order::Made(made)) => self.made = made,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if self.load.records > 0 && self.since.elapsed() >= LINGER {
                self.flush();
            }
            if self.told.is_some_and(|told| told.elapsed() >= RESENT) {
                self.tell();
            }
        }
        self.flush();
        self.tell();
        if let Way::Udp { socket, .. } = &self.way {
            thread::sleep(LAST);
            if let Ok(Some(error)) = socket.take_error() {
                self.lost_before(&error);
            }
        }
    }

    fn add(&mut self, record: &Record) {
        if !self.messages.has_room() {
            self.flush();
        }
        if self.load.records == 0 {
            self.since = Instant::now();
        }
        self.messages.record(record);
        self.load.records += 1;
        self.load.packets += record.packets;
    }

    /// Sends the current message.
    fn flush(&mut self) {
        let load = std::mem::take(&mut self.load);
        if load.records == 0 {
            return;
        }
        // A collector without the templates cannot parse it. The message is built after them, so
        // that its sequence number is right.
        let is_ready = match self.shared.is_overdue() {
            true => Err(ErrorKind::TimedOut.into()),
            false => self.connect(),
        };
        let message = self.messages.take(now_s());
        match is_ready {
            Ok(()) => self.send(&message, load),
            Err(error) => self.shared.lose(self.reason(&error), load.records, load.packets, &error),
        }
    }

    /// Returns the name of a loss.
    fn reason(&self, error: &io::Error) -> &'static str {
        let has_connection = matches!(&self.way, Way::Tcp(Some(_)));
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut if has_connection => "collector_slow",
            _ if has_connection => "collector_broke_off",
            _ if self.collector.is_tcp => "collector_absent",
            ErrorKind::WouldBlock | ErrorKind::TimedOut => "collector_slow",
            _ => "collector_unreachable",
        }
    }

    /// Ensures that there is a connection, and that the templates were sent on it. Waits for a TCP
    /// collector until the job ends.
    fn connect(&mut self) -> io::Result<()> {
        match &mut self.way {
            Way::Udp { has_way: true, .. } => {}
            Way::Udp { socket, has_way } => {
                socket.connect(self.collector.address)?;
                *has_way = true;
            }
            Way::Tcp(stream) => {
                if stream.as_mut().is_some_and(is_closed) {
                    *stream = None;
                }
                if stream.is_none() {
                    self.shared.set_connected(false);
                    self.dial()?;
                }
            }
        }
        if self.told.is_none() {
            self.templates()?;
        }
        Ok(())
    }

    fn dial(&mut self) -> io::Result<()> {
        if self.is_given_up {
            return Err(ErrorKind::NotConnected.into());
        }
        loop {
            let is_last = self.shared.is_finishing();
            let error = match TcpStream::connect_timeout(&self.collector.address, CONNECT) {
                Ok(stream) => {
                    stream.set_write_timeout(Some(WRITE))?;
                    self.way = Way::Tcp(Some(stream));
                    self.told = None;
                    self.shared.set_connected(true);
                    return Ok(());
                }
                Err(error) => error,
            };
            if is_last {
                self.is_given_up = true;
                return Err(error);
            }
            self.shared.note(&error);
            let until = Instant::now() + RETRY;
            while Instant::now() < until && !self.shared.is_finishing() {
                thread::sleep(LOOK);
            }
        }
    }

    /// Sends the templates, before the current message.
    fn templates(&mut self) -> io::Result<()> {
        if self.collector.is_tcp {
            self.messages.restart();
        }
        let message = self.messages.templates(now_s());
        self.put(&message)?;
        // An error reported from now on is about the templates, which have no records.
        self.last = Load::default();
        self.shared.sent(0, 0, message.len());
        self.told = Some(Instant::now());
        Ok(())
    }

    /// Sends the templates again, if they may have been lost, and the statistics.
    fn tell(&mut self) {
        if self.load.records > 0 {
            self.flush();
        }
        if !self.collector.is_tcp {
            self.told = None;
        }
        if self.told.is_none() && self.connect().is_err() {
            return;
        }
        self.told = Some(Instant::now());
        let totals = self.shared.totals();
        self.messages.statistics(&self.made, &totals);
        let message = self.messages.take(now_s());
        self.send(&message, Load::default());
    }

    fn send(&mut self, message: &[u8], load: Load) {
        match self.put(message) {
            Ok(()) => {
                self.shared.sent(load.records, load.packets, message.len());
                self.last = load;
            }
            Err(error) => {
                self.shared.lose(self.reason(&error), load.records, load.packets, &error);
                if let Way::Tcp(stream) = &mut self.way {
                    // The collector may have half of the message: only a new connection is usable.
                    *stream = None;
                    self.told = None;
                }
            }
        }
    }

    fn put(&mut self, message: &[u8]) -> io::Result<()> {
        let refused = match &mut self.way {
            Way::Tcp(Some(stream)) => return stream.write_all(message),
            Way::Tcp(None) => return Err(ErrorKind::NotConnected.into()),
            Way::Udp { socket, .. } => match socket.send(message) {
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => error,
                sent => return self.judge(sent),
            },
        };
        self.lost_before(&refused);
        let Way::Udp { socket, .. } = &self.way else { return Ok(()) };
        let sent = socket.send(message);
        self.judge(sent)
    }

    /// Decides from a UDP send error whether the socket is still usable.
    fn judge(&mut self, sent: io::Result<usize>) -> io::Result<()> {
        use ErrorKind::{ConnectionRefused, TimedOut, WouldBlock};
        let Err(error) = sent else { return Ok(()) };
        let is_of_use = matches!(error.kind(), ConnectionRefused | TimedOut | WouldBlock);
        if !is_of_use && let Ok(fresh) = udp_socket(self.collector.address) {
            self.way = Way::Udp { socket: fresh, has_way: false };
            // The new socket has another port, and possibly another address.
            (self.told, self.last) = (None, Load::default());
        }
        Err(error)
    }

    /// Counts the previous message as lost.
    fn lost_before(&mut self, error: &io::Error) {
        let Load { records, packets } = std::mem::take(&mut self.last);
        self.shared.unsend(records, packets);
        self.shared.lose("collector_refused", records, packets, error);
    }
}

/// Creates a socket to a collector, not connected yet.
fn udp_socket(collector: SocketAddr) -> io::Result<UdpSocket> {
    let any = match collector {
        SocketAddr::V4(_) => "0.0.0.0:0",
        SocketAddr::V6(_) => "[::]:0",
    };
    let socket = UdpSocket::bind(any)?;
    socket.set_write_timeout(Some(WRITE))?;
    Ok(socket)
}

/// Returns whether a kernel error may be temporary: no route, no local address.
fn is_outage(error: &io::Error) -> bool {
    use ErrorKind::{AddrNotAvailable, HostUnreachable, NetworkDown, NetworkUnreachable};
    let kinds = [AddrNotAvailable, HostUnreachable, NetworkDown, NetworkUnreachable];
    kinds.contains(&error.kind())
}

/// Returns whether the collector has closed the connection; it sends no data.
fn is_closed(stream: &mut TcpStream) -> bool {
    let mut byte = [0];
    let looked = stream.set_nonblocking(true).and_then(|()| stream.read(&mut byte));
    let is_open = match looked {
        Ok(length) => length > 0,
        Err(error) => error.kind() == ErrorKind::WouldBlock,
    };
    !is_open || stream.set_nonblocking(false).is_err()
}

fn now_s() -> u32 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_secs() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a courier to a socket that owns its port.
    fn courier() -> (Courier, Arc<Shared>, UdpSocket) {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        receiver.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let address = receiver.local_addr().unwrap();
        let name = format!("udp:{address}");
        let collector = Collector { address, ..name.parse().unwrap() };
        let shared = Arc::new(Shared::default());
        (Courier::new(collector, Arc::clone(&shared)).unwrap(), shared, receiver)
    }

    fn send(courier: &mut Courier) {
        courier.add(&Record { packets: 3, ..Record::default() });
        courier.flush();
    }

    #[test]
    fn templates_that_come_to_nobody_cost_no_message_before_them() {
        let (mut courier, shared, receiver) = courier();
        send(&mut courier);
        for what in ["templates", "records"] {
            assert!(receiver.recv(&mut [0; UDP_BYTES]).unwrap() > 0, "{what}");
        }
        let probe = UdpSocket::bind("127.0.0.1:0").unwrap();
        probe.connect(receiver.local_addr().unwrap()).unwrap();
        drop(receiver);
        // A child started by another test has a copy of the socket until it runs. A failure says
        // that the datagram before it was refused.
        while probe.send(b"x").is_ok() {
            thread::yield_now();
        }
        courier.told = None;
        // The templates are refused, which the next records' send reports.
        send(&mut courier);
        let totals = shared.totals();
        assert_eq!((totals.records, totals.records_lost), (2, 0));
        // Those were also refused.
        send(&mut courier);
        let totals = shared.totals();
        assert_eq!((totals.records, totals.records_lost, totals.packets_lost), (2, 1, 3));
    }
}
