//! A pseudo-terminal with a program in it, for tests of what a terminal shows.
//!
//! The program leads a session with this terminal, as under setsid(1). It gets SIGWINCH when the
//! size changes, and finds its terminal as /dev/tty.
//!
//! Source: pty(7), setsid(1).

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::Killed;

/// A terminal, and the program in it.
pub struct Terminal {
    child: Killed,
    /// `None` once it is hung up.
    master: Option<Arc<File>>,
    /// The program's side, so that its state can be read after the program has ended.
    slave: File,
    shown: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    /// Starts a program in a terminal of this size.
    ///
    /// # Errors
    /// There is no pseudo-terminal, or no setsid(1).
    pub fn start(
        program: &str,
        arguments: &[&str],
        columns: u16,
        rows: u16,
        change: impl FnOnce(&mut Command),
    ) -> io::Result<Self> {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let name = ptsname(&master, Vec::new())?;
        let path = PathBuf::from(name.to_string_lossy().into_owned());
        let slave = open_without_control(&path)?;
        tcsetwinsize(&master, size(columns, rows))?;
        let mut command = Command::new("setsid");
        command.args(["--ctty", program]).args(arguments).env("TERM", "xterm-256color");
        change(&mut command);
        let side = || slave.try_clone().map(Stdio::from);
        let child = command.stdin(side()?).stdout(side()?).stderr(side()?).spawn()?;
        let (master, shown) = (Arc::new(File::from(master)), Arc::new(Mutex::new(Vec::new())));
        let (from, to) = (Arc::downgrade(&master), Arc::clone(&shown));
        // The thread ends when the terminal is hung up, or no process has the other side open.
        thread::spawn(move || {
            while let Some(from) = from.upgrade()
                && let Ok(()) = read_some(&from, &to)
            {}
        });
        Ok(Self { master: Some(master), slave, child: Killed(child), shown })
    }

    /// Closes this side, as a terminal does that is closed, or a connection that ends.
    pub fn hang_up(&mut self) {
        self.master = None;
    }

    fn master(&self) -> io::Result<&File> {
        self.master.as_deref().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Types keys.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn press(&mut self, keys: &str) -> io::Result<()> {
        self.master()?.write_all(keys.as_bytes())
    }

    /// Changes the size; the program gets a signal.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn resize(&self, columns: u16, rows: u16) -> io::Result<()> {
        Ok(tcsetwinsize(self.master()?, size(columns, rows))?)
    }

    /// Returns all output of the program so far, including control sequences.
    pub fn shown(&self) -> String {
        let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&shown).into_owned()
    }

    /// Returns whether the terminal is in line mode with echo, as a shell expects.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn is_sane(&self) -> io::Result<bool> {
        let modes = tcgetattr(&self.slave)?.local_modes;
        Ok(modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG))
    }

    /// Returns the program's pid.
    pub fn process_id(&self) -> u32 {
        self.child.id()
    }

    /// Waits at most this long for the program to end.
    ///
    /// # Errors
    /// It has not ended in time.
    pub fn wait(&mut self, most: Duration) -> io::Result<ExitStatus> {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            if begun.elapsed() > most {
                return Err(io::ErrorKind::TimedOut.into());
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Waits a moment for output, and adds it to what was shown. An error means that none will come.
fn read_some(mut from: &File, shown: &Mutex<Vec<u8>>) -> io::Result<()> {
    let mut ready = [PollFd::new(from, PollFlags::IN)];
    let moment = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
    if retry_on_intr(|| poll(&mut ready, Some(&moment)))? == 0 {
        return Ok(());
    }
    let mut place = [0; 4096];
    match from.read(&mut place)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        bytes => {
            let mut shown = shown.lock().unwrap_or_else(PoisonError::into_inner);
            shown.extend_from_slice(&place[..bytes]);
            Ok(())
        }
    }
}

fn size(columns: u16, rows: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

/// Opens a terminal without making it the caller's controlling terminal, which happens to a session
/// leader without one.
fn open_without_control(path: &std::path::Path) -> io::Result<File> {
    use rustix::fs::{Mode, OFlags, open};
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(File::from(open(path, flags, Mode::empty())?))
}
