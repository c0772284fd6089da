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

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::Killed;

/// A terminal, and the program in it.
pub struct Terminal {
    child: Killed,
    master: File,
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
        let (master, shown) = (File::from(master), Arc::new(Mutex::new(Vec::new())));
        let (mut from, to) = (master.try_clone()?, Arc::clone(&shown));
        thread::spawn(move || {
            let mut place = [0; 4096];
            // The thread ends when no process has the other side open.
            while let Ok(bytes @ 1..) = from.read(&mut place) {
                let mut shown = to.lock().unwrap_or_else(PoisonError::into_inner);
                shown.extend_from_slice(&place[..bytes]);
            }
        });
        Ok(Self { master, slave, child: Killed(child), shown })
    }

    /// Types keys.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn press(&mut self, keys: &str) -> io::Result<()> {
        self.master.write_all(keys.as_bytes())
    }

    /// Changes the size; the program gets a signal.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn resize(&self, columns: u16, rows: u16) -> io::Result<()> {
        Ok(tcsetwinsize(&self.master, size(columns, rows))?)
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
