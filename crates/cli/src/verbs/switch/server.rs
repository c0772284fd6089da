//! The control socket of a switch: each request and each answer is a line of JSON.
//!
//! It serves only the user who runs the switch, and root: the socket has mode 0600, and the kernel
//! reports the peer's user. Clients are served one at a time, with one request each. A client whose
//! request does not arrive within a few seconds is dropped. So no client can block others or keep
//! the switch from ending.
//!
//! ```text
//!   client ──► helper: who is it, what does it ask for? ──► control thread: carries it out
//! ```
//!
//! A switch started by root has given up its rights, so a helper accepts the clients: it has to
//! know from them, and not from the switch, which ports to open. The switch answers them.
//!
//! After SIGKILL the socket file remains; the next switch with that name replaces it.

use std::fs::{self, Permissions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread;
use std::time::{Duration, Instant};

use burstline_engine::{EngineError, SwitchHandle};
use burstline_port::OpenOptions;
use burstline_share::switch_socket;
use burstline_sys::event::Event;
use burstline_sys::helper::{self, Client, Clients, Door};
use burstline_sys::{late, privileges, readiness, seqpacket, users};
use serde_json::{Value, json};

use super::requests;
use crate::confinement;
use crate::failure::{Failure, complain};

/// Timeout for receiving a request and for sending the answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Maximum size of a request, which may contain rules.
const REQUEST_BYTES_MAX: usize = 64 << 20;
/// Size of a read.
const PIECE_BYTES: usize = 64 << 10;
/// Time until the next try if this process has no descriptors or memory left.
const PAUSE: Duration = Duration::from_millis(100);
/// Interval between checks whether the switch has ended, in ns, if nothing wakes the thread.
const LOOK_NS: u64 = 1_000_000_000;

/// The listening socket. Dropping it removes its file.
pub(super) struct Server {
    /// `None` once a helper has it.
    listener: Option<UnixListener>,
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
        Ok(Self { listener: Some(listener), path, end: Arc::new(Event::new()?) })
    }

    /// Returns the event that ends the server.
    pub(super) fn end(&self) -> Arc<Event> {
        Arc::clone(&self.end)
    }

    /// Executes requests until the end event is raised.
    ///
    /// The calling thread drops its privileges, and a helper opens added ports. Without a helper it
    /// keeps those that ports take. With `keeps_privileges` it keeps all. Closes `begun` once the
    /// helper has the listener.
    pub(super) fn serve(
        mut self,
        handle: &SwitchHandle,
        options: &OpenOptions,
        keeps_privileges: bool,
        begun: Sender<()>,
    ) {
        let dropped = match (keeps_privileges, helper::is_started()) {
            (true, _) => Ok(()),
            (false, true) => privileges::give_up(),
            (false, false) => privileges::keep_what_ports_take(),
        };
        let listener = self.listener.take().expect("it serves once");
        let clients = dropped.and_then(|()| helper::serve(listener.as_fd()));
        drop(begun);
        let clients = clients.inspect_err(|error| {
            complain(&format!("warning: {}: {error}: no commands", self.path.display()));
        });
        match clients {
            Ok(Some(clients)) => {
                drop(listener); // only the helper has it now, so its end is seen
                self.serve_passed(&clients, handle, options);
            }
            Ok(None) => self.serve_own(&listener, handle, options),
            Err(_) => {
                drop(listener); // who waits for an answer sees that none comes
                drop(readiness::wait(&[self.end.as_fd()], u64::MAX));
            }
        }
    }

    /// Serves clients that a helper has accepted, and whose requests it has read.
    fn serve_passed(&self, clients: &Clients, handle: &SwitchHandle, options: &OpenOptions) {
        loop {
            let both = [self.end.as_fd(), clients.as_fd()];
            let Ok(ready) = readiness::wait_each(&both, LOOK_NS) else { continue };
            if ready[0] {
                return;
            }
            if !ready[1] {
                continue;
            }
            let Client { connection, mut request } = match clients.receive() {
                Ok(Some(client)) => client,
                Ok(None) => {
                    complain("warning: the helper of this switch has ended: no more commands");
                    drop(readiness::wait(&[self.end.as_fd()], u64::MAX));
                    return;
                }
                Err(error) => {
                    complain(&format!("warning: {}: {error}: no answer", self.path.display()));
                    thread::sleep(PAUSE);
                    continue;
                }
            };
            let mut line = Vec::new();
            if request.read_to_end(&mut line).is_ok() {
                // A client may disconnect before the answer.
                let _ = answer(&connection.into(), &line, handle, options);
            }
        }
    }

    /// Serves clients without a helper.
    fn serve_own(&self, listener: &UnixListener, handle: &SwitchHandle, options: &OpenOptions) {
        loop {
            let waited = readiness::wait(&[self.end.as_fd()], 0);
            if matches!(waited, Ok(readiness::Ready::Readable)) {
                return;
            }
            // Accepting does not block, so try it in any case.
            let _ = readiness::wait(&[listener.as_fd(), self.end.as_fd()], LOOK_NS);
            if let Ok((client, _)) = listener.accept()
                && let Ok(Some(line)) = request_of(&client, self.end.as_fd())
            {
                let _ = answer(&client, &line, handle, options);
            }
        }
    }
}

/// Serves the control socket in the helper, until the job ends: reads each request, allows the job
/// what its ports take, and passes the client on.
pub(crate) fn serve_door(door: &Door) {
    let Ok(listener) = door.listener().try_clone_to_owned().map(UnixListener::from) else { return };
    loop {
        let ready = readiness::wait_each(&[door.end(), door.listener()], LOOK_NS);
        // The job sends nothing here, so it has closed its end.
        if ready.is_ok_and(|ready| ready[0]) {
            return;
        }
        let client = match listener.accept() {
            Ok((client, _)) => client,
            Err(error) => {
                if error.kind() != io::ErrorKind::WouldBlock {
                    thread::sleep(PAUSE);
                }
                continue;
            }
        };
        let Ok(Some(line)) = request_of(&client, door.end()) else { continue };
        if let Ok(request) = serde_json::from_slice::<Value>(&line) {
            door.extend(confinement::extension(&requests::opens_of(&request)));
        }
        if door.pass(client.as_fd(), &line).is_err() {
            let _ = reply(&client, &error("the switch is ending"));
        }
    }
}

/// Reads a client's request. `None` if the client may not ask, is too slow or too long, or if `end`
/// is readable.
fn request_of(client: &UnixStream, end: BorrowedFd<'_>) -> io::Result<Option<Vec<u8>>> {
    client.set_nonblocking(false)?;
    client.set_read_timeout(Some(PATIENCE))?;
    client.set_write_timeout(Some(PATIENCE))?;
    let peer = seqpacket::peer_of(client)?;
    // A helper connects on behalf of its job, which may not ask itself for more.
    if peer.pid == std::process::id() {
        return Ok(None);
    }
    if peer.uid != 0 && peer.uid != users::effective_user() {
        let what = "only the user who runs the switch may control it";
        return reply(client, &error(what)).map(|()| None);
    }
    let until = Instant::now() + PATIENCE;
    let (mut line, mut room) = (Vec::new(), vec![0; PIECE_BYTES]);
    while !line.ends_with(b"\n") {
        let left = until.saturating_duration_since(Instant::now());
        let ready = readiness::wait_each(&[end, client.as_fd()], left.as_nanos() as u64)?;
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

fn answer(
    client: &UnixStream,
    line: &[u8],
    handle: &SwitchHandle,
    options: &OpenOptions,
) -> io::Result<()> {
    let answer = match serde_json::from_slice::<Value>(line) {
        Ok(request) => requests::carry_out(&request, handle, options)
            .unwrap_or_else(|failure| error(&failure.to_string())),
        Err(fault) => error(&format!("a request is a line of JSON: {fault}")),
    };
    reply(client, &answer)
}

impl Drop for Server {
    fn drop(&mut self) {
        // The file may be gone already.
        let _ = late::remove_file(&self.path);
    }
}

fn error(what: &str) -> Value {
    json!({ "ok": false, "error": what })
}

fn reply(mut client: &UnixStream, answer: &Value) -> io::Result<()> {
    client.write_all(format!("{answer}\n").as_bytes())
}
