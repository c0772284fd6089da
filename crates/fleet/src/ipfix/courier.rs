//! The thread that has the socket.
//!
//! UDP: what a collector that is not there answers (ICMP) arrives with the next message, and is
//! about one before: the last message then counts as lost. Nobody else tells what was lost on the
//! way; the collector sees a gap in the sequence numbers. Where the kernel knows no way there, each
//! message is lost by name, and the next one asks again. It does so by a new socket: the old one
//! keeps an address of this machine that may be another one by then.
//!
//! TCP: without a connection the courier keeps one message and tries again each second; the queue
//! behind it fills meanwhile. What was written into a connection that then breaks may be lost in
//! the kernels; of that the message that could not be written is counted.

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

/// Between two times that a UDP collector gets the templates, and any the statistics.
const RESENT: Duration = Duration::from_secs(30);
/// How long a message waits for more records.
const LINGER: Duration = Duration::from_millis(500);
const CONNECT: Duration = Duration::from_secs(2);
const WRITE: Duration = Duration::from_secs(5);
/// Between two tries to connect.
const RETRY: Duration = Duration::from_secs(1);
/// Between two looks at whether the job ends.
const LOOK: Duration = Duration::from_millis(20);
/// How long an answer to the last message may take.
const LAST: Duration = Duration::from_millis(50);

/// Bytes of a message: what passes through tunnels whole, and what one write takes.
const UDP_BYTES: usize = 1400;
const TCP_BYTES: usize = 16 << 10;

/// What the sink hands over.
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
        /// Whether the kernel knew a way when it was asked.
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
    /// In the message that is being made, and since when.
    load: Load,
    since: Instant,
    /// In the message that was sent last.
    last: Load,
    told: Option<Instant>,
    /// Whether the job ends and the collector is not there: no more tries.
    is_given_up: bool,
}

impl Courier {
    /// Binds a socket; a TCP collector is connected to later, and any where there is no way yet.
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

    /// Sends what comes, until the sink hands over no more.
    pub(super) fn run(mut self, orders: &Receiver<Order>) {
        // The job's own threads say so where that is refused.
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

    /// Sends the message that is being made.
    fn flush(&mut self) {
        let load = std::mem::take(&mut self.load);
        if load.records == 0 {
            return;
        }
        // A collector that does not know the templates cannot read it. The message is made after
        // them, so that its sequence number is right.
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

    /// The name of a loss.
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

    /// Makes sure that there is a connection, and that the templates were sent on it. Waits for a
    /// TCP collector until the job ends.
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

    /// Sends the templates, in front of the message that is being made.
    fn templates(&mut self) -> io::Result<()> {
        if self.collector.is_tcp {
            self.messages.restart();
        }
        let message = self.messages.templates(now_s());
        self.put(&message)?;
        // What is refused from now on is the templates, which hold no record.
        self.last = Load::default();
        self.shared.sent(0, 0, message.len());
        self.told = Some(Instant::now());
        Ok(())
    }

    /// Templates again, where they may have been lost, and the statistics.
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
                    // The collector may have half of it: only a new connection has sense again.
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

    /// What UDP could not send says whether the socket is of any use.
    fn judge(&mut self, sent: io::Result<usize>) -> io::Result<()> {
        use ErrorKind::{ConnectionRefused, TimedOut, WouldBlock};
        let Err(error) = sent else { return Ok(()) };
        let is_of_use = matches!(error.kind(), ConnectionRefused | TimedOut | WouldBlock);
        if !is_of_use && let Ok(fresh) = udp_socket(self.collector.address) {
            self.way = Way::Udp { socket: fresh, has_way: false };
            // Its port, and perhaps its address, is new to the collector.
            (self.told, self.last) = (None, Load::default());
        }
        Err(error)
    }

    /// The message before has come to nobody.
    fn lost_before(&mut self, error: &io::Error) {
        let Load { records, packets } = std::mem::take(&mut self.last);
        self.shared.unsend(records, packets);
        self.shared.lose("collector_refused", records, packets, error);
    }
}

/// A socket to a collector, not connected yet.
fn udp_socket(collector: SocketAddr) -> io::Result<UdpSocket> {
    let any = match collector {
        SocketAddr::V4(_) => "0.0.0.0:0",
        SocketAddr::V6(_) => "[::]:0",
    };
    let socket = UdpSocket::bind(any)?;
    socket.set_write_timeout(Some(WRITE))?;
    Ok(socket)
}

/// Whether what the kernel says may be otherwise in a moment: no route, no address of one's own.
fn is_outage(error: &io::Error) -> bool {
    use ErrorKind::{AddrNotAvailable, HostUnreachable, NetworkDown, NetworkUnreachable};
    let kinds = [AddrNotAvailable, HostUnreachable, NetworkDown, NetworkUnreachable];
    kinds.contains(&error.kind())
}

/// Whether the collector has closed the connection; it has nothing else to say.
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

    /// A courier to a socket that has its port.
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
        drop(receiver);
        courier.told = None;
        // The templates are refused, which the records behind them hear.
        send(&mut courier);
        let totals = shared.totals();
        assert_eq!((totals.records, totals.records_lost), (2, 0));
        // Those were refused, too.
        send(&mut courier);
        let totals = shared.totals();
        assert_eq!((totals.records, totals.records_lost, totals.packets_lost), (2, 1, 3));
    }
}
