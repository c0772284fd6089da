//! The socket by which a switch is controlled: a line of JSON there, a line back.
//!
//! It serves only the user who runs the switch and root: the socket has mode 0600, and the kernel
//! says who is at the other end. One client after the other has one request carried out; one whose
//! request is not there within some seconds is left. So none keeps the switch from ending, or
//! others from their turn.
//!
//! After SIGKILL the socket's file stays; the next switch of that name replaces it.

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

/// For how long a client's request is waited for, and for how long it may take no answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest request: the rules are in it.
const REQUEST_BYTES_MAX: usize = 64 << 20;
/// Bytes of a read.
const PIECE_BYTES: usize = 64 << 10;
/// Between two looks whether the switch has ended, in ns, where nothing wakes the thread.
const LOOK_NS: u64 = 1_000_000_000;

/// The socket; its file goes when this is dropped.
pub(super) struct Server {
    listener: UnixListener,
    path: PathBuf,
    end: Arc<Event>,
}

impl Server {
    /// Takes the name of a switch.
    pub(super) fn bind(name: &str) -> Result<Self, Failure> {
        let path = switch_socket(name).map_err(EngineError::from)?;
        let fail = |error: io::Error| Failure::new(format!("{}: {error}", path.display()));
        match UnixStream::connect(&path) {
            Ok(_) => {
                let what = format!("a switch {name} runs already: {}", path.display());
                return Err(Failure::new(what));
            }
            // What a killed one has left.
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

    /// Raised, it ends the server.
    pub(super) fn end(&self) -> Arc<Event> {
        Arc::clone(&self.end)
    }

    /// Carries requests out until the end is raised.
    ///
    /// The calling thread opens ports that are added, and keeps no other rights, unless it is to.
    pub(super) fn serve(
        self,
        handle: &SwitchHandle,
        options: &OpenOptions,
        keeps_privileges: bool,
    ) {
        // What it cannot give up it does not use.
        let _ = keeps_privileges || privileges::keep_what_ports_take().is_ok();
        loop {
            let waited = readiness::wait(&[self.end.as_fd()], 0);
            if matches!(waited, Ok(readiness::Ready::Readable)) {
                return;
            }
            // The listener does not block, so it is asked in any case.
            let _ = readiness::wait(&[self.listener.as_fd(), self.end.as_fd()], LOOK_NS);
            if let Ok((client, _)) = self.listener.accept() {
                // A client that goes away gets no answer.
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

    /// The line that a client sends. `None`: it is too slow or too long, or the switch ends.
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
        // It may be gone already.
        let _ = fs::remove_file(&self.path);
    }
}

fn error(what: &str) -> Value {
    json!({ "ok": false, "error": what })
}

fn reply(mut client: &UnixStream, answer: &Value) -> io::Result<()> {
    client.write_all(format!("{answer}\n").as_bytes())
}
