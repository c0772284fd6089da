//! The control socket of a switch: each request and each answer is a line of JSON.
//!
//! It serves only the user who runs the switch, and root: the socket has mode 0600, and the kernel
//! reports the peer's user. Clients are served one at a time, with one request each. A client whose
//! request does not arrive within a few seconds is dropped. So no client can block others or keep
//! the switch from ending.
//!
//! After SIGKILL the socket file remains; the next switch with that name replaces it.

use std::fs::{self, Permissions};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use burstline_engine::{EngineError, SwitchHandle};
use burstline_port::OpenOptions;
use burstline_share::switch_socket;
use burstline_sys::event::Event;
use burstline_sys::{privileges, readiness, seqpacket, users};
use serde_json::{Value, json};

use super::requests;
use crate::failure::Failure;

/// Timeout for receiving a request and for sending the answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Maximum size of a request, which may contain rules.
const REQUEST_BYTES_MAX: usize = 64 << 20;
/// Size of a read.
const PIECE_BYTES: usize = 64 << 10;
/// Interval between checks whether the switch has ended, in ns, if nothing wakes the thread.
const LOOK_NS: u64 = 1_000_000_000;

/// The listening socket. Dropping it removes its file.
pub(super) struct Server {
    listener: UnixListener,
    path: PathBuf,
    end: Arc<Event>,
}

impl Server {
    /// Claims the name of a switch.
    pub(super) fn bind(name: &str) -> Result<Self, Failure> {
        let path = switch_socket(name).map_err(EngineError::from)?;
        let fail = |error: io::Error| Failure::new(format!("{}: {error}", path.display()));
        match UnixStream::connect(&path) {
            Ok(_) => {
                let what = format!("a switch {name} is already running: {}", path.display());
                return Err(Failure::new(what));
            }
            // Left behind by a killed switch.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                fs::remove_file(&path).map_err(fail)?;
            }
            Err(_) => {}
        }
        let listener = UnixListener::bind(&path).map_err(fail)?;
        fs::set_permissions(&path, Permissions::from_mode(0o600)).map_err(fail)?;
        listener.set_nonblocking(true).map_err(fail)?;
        Ok(Self { listener, path, end: Arc::new(Event::new()?) })
    }

    /// Returns the event that ends the server.
    pub(super) fn end(&self) -> Arc<Event> {
        Arc::clone(&self.end)
    }

    /// Executes requests until the end event is raised.
    ///
    /// The calling thread opens added ports. It keeps the privileges for that, and drops all others
    /// unless `keeps_privileges`.
    pub(super) fn serve(
        self,
        handle: &SwitchHandle,
        options: &OpenOptions,
        keeps_privileges: bool,
    ) {
        // Privileges that cannot be dropped are not used.
        let _ = keeps_privileges || privileges::keep_what_ports_take().is_ok();
        loop {
            let waited = readiness::wait(&[self.end.as_fd()], 0);
            if matches!(waited, Ok(readiness::Ready::Readable)) {
                return;
            }
            // Accepting does not block, so try it in any case.
            let _ = readiness::wait(&[self.listener.as_fd(), self.end.as_fd()], LOOK_NS);
            if let Ok((client, _)) = self.listener.accept() {
                // A client may disconnect before the answer.
                let _ = self.answer(&client, handle, options);
            }
        }
    }

    fn answer(
        &self,
        client: &UnixStream,
        handle: &SwitchHandle,
        options: &OpenOptions,
    ) -> io::Result<()> {
        client.set_nonblocking(false)?;
        client.set_read_timeout(Some(PATIENCE))?;
        client.set_write_timeout(Some(PATIENCE))?;
        let peer = seqpacket::peer_of(client)?;
        if peer.uid != 0 && peer.uid != users::effective_user() {
            return reply(client, &error("only the user who runs the switch may control it"));
        }
        let Some(line) = self.request_of(client)? else { return Ok(()) };
        let answer = match serde_json::from_slice::<Value>(&line) {
            Ok(request) => requests::carry_out(&request, handle, options)
                .unwrap_or_else(|failure| error(&failure.to_string())),
            Err(fault) => error(&format!("a request is a line of JSON: {fault}")),
        };
        reply(client, &answer)
    }

    /// Reads a client's request. `None` if it is too slow or too long, or if the switch ends.
    fn request_of(&self, client: &UnixStream) -> io::Result<Option<Vec<u8>>> {
        let until = Instant::now() + PATIENCE;
        let (mut line, mut room) = (Vec::new(), vec![0; PIECE_BYTES]);
        while !line.ends_with(b"\n") {
            let left = until.saturating_duration_since(Instant::now());
            let both = [self.end.as_fd(), client.as_fd()];
            let ready = readiness::wait_each(&both, left.as_nanos() as u64)?;
            if ready[0] || left.is_zero() || line.len() > REQUEST_BYTES_MAX {
                return Ok(None);
            }
            if ready[1] {
                match (&mut &*client).read(&mut room)? {
                    0 => break,
                    bytes => line.extend(&room[..bytes]),
                }
            }
        }
        Ok(Some(line))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The file may be gone already.
        let _ = fs::remove_file(&self.path);
    }
}

fn error(what: &str) -> Value {
    json!({ "ok": false, "error": what })
}

fn reply(mut client: &UnixStream, answer: &Value) -> io::Result<()> {
    client.write_all(format!("{answer}\n").as_bytes())
}
