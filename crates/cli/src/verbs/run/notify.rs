//! Sends messages to systemd or another service manager: datagrams to `$NOTIFY_SOCKET`.
//!
//! Source: sd_notify(3), systemd 252; RELOADING with MONOTONIC_USEC as of systemd 253.

use std::env;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

use burstline_sys::clock;

/// Variables in which a manager states its requests; jobs do not get them.
pub(super) const VARIABLES: [&str; 3] = ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"];

/// The connection to a service manager; does nothing without one.
pub(super) struct Notify {
    to: Option<(UnixDatagram, SocketAddr)>,
    /// The watchdog's interval.
    watchdog: Option<Duration>,
    alive_at: Instant,
    status: String,
}

impl Notify {
    /// Connects to the manager that the environment names.
    pub(super) fn from_environment() -> Self {
        let to = env::var(VARIABLES[0]).ok().and_then(|path| {
            let address = match path.strip_prefix('@') {
                Some(name) => SocketAddr::from_abstract_name(name),
                None => SocketAddr::from_pathname(&path),
            };
            Some((UnixDatagram::unbound().ok()?, address.ok()?))
        });
        Self { to, watchdog: watchdog(), alive_at: Instant::now(), status: String::new() }
    }

    /// Reports that all jobs are started.
    pub(super) fn ready(&self) {
        self.send("READY=1");
    }

    /// Reports the start of a reload; [`ready`](Self::ready) ends it.
    pub(super) fn reloading(&self) {
        let now_us = clock::monotonic_ns() / 1000;
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={now_us}"));
    }

    /// Reports that jobs are being ended.
    pub(super) fn stopping(&self) {
        self.send("STOPPING=1");
    }

    /// Sets the text that `systemctl status` shows, if it changed.
    pub(super) fn status(&mut self, text: &str) {
        if self.status != text {
            text.clone_into(&mut self.status);
            self.send(&format!("STATUS={text}"));
        }
    }

    /// Sends the keep-alive message when it is due, and returns the next due time.
    pub(super) fn live(&mut self, now: Instant) -> Option<Instant> {
        let interval = self.watchdog? / 2;
        if now >= self.alive_at {
            self.send("WATCHDOG=1");
            self.alive_at = now + interval;
        }
        Some(self.alive_at)
    }

    fn send(&self, text: &str) {
        if let Some((socket, address)) = &self.to {
            // The manager may not be listening.
            let _ = socket.send_to_addr(text.as_bytes(), address);
        }
    }
}

/// Returns the watchdog's interval, if it is for this process. Source: sd_watchdog_enabled(3).
fn watchdog() -> Option<Duration> {
    let number = |name| env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let is_for_us = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
    let interval_us = number("WATCHDOG_USEC").filter(|&us| us > 0 && is_for_us)?;
    Some(Duration::from_micros(interval_us))
}
