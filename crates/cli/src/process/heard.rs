//! Signals as a thread hears them, one after the other.
//!
//! Handlers note each signal and wake the thread by a byte in a socket. If the socket fails, the
//! thread looks for noted signals itself, so none is lost. `signal_hook::iterator::Signals` would
//! panic then.

use std::io::{ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::SignalOnly;

use crate::failure::Failure;

/// Interval between two looks when the socket fails.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Signals that handlers note from now on.
pub(crate) struct Heard(SignalDelivery<UnixStream, SignalOnly>);

impl Heard {
    pub(crate) fn new(signals: impl IntoIterator<Item = i32>) -> Result<Self, Failure> {
        let delivery = UnixStream::pair()
            .and_then(|(read, write)| SignalDelivery::with_pipe(read, write, SignalOnly, signals));
        let failed = |error| Failure::new(format!("catch signals: {error}"));
        delivery.map(Self).map_err(failed)
    }

    /// Waits, and calls `hear` for each signal, until the process ends.
    pub(crate) fn listen(mut self, mut hear: impl FnMut(i32)) -> ! {
        loop {
            self.pause();
            self.0.pending().for_each(&mut hear);
        }
    }

    /// Waits until a handler has noted a signal, or for a while if that cannot be known.
    fn pause(&mut self) {
        match self.0.get_read_mut().read(&mut [0]) {
            Ok(1..) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => thread::sleep(LOOK_EVERY),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Shutdown;
    use std::sync::mpsc;

    use signal_hook::consts::SIGURG;
    use signal_hook::low_level::raise;

    use super::*;

    #[test]
    fn a_signal_is_heard_with_the_socket_and_without_it() {
        for fails in [false, true] {
            let heard = Heard::new([SIGURG]).unwrap();
            if fails {
                heard.0.get_read().shutdown(Shutdown::Both).unwrap();
            }
            let (to, told) = mpsc::channel();
            thread::spawn(move || heard.listen(|signal| to.send(signal).unwrap()));
            for _ in 0..2 {
                raise(SIGURG).unwrap();
                assert_eq!(told.recv_timeout(Duration::from_secs(60)), Ok(SIGURG));
            }
        }
    }
}
