//! Programs on a host.
//!
//! Each is started through `setpriv --pdeathsig KILL`: the kernel kills the program when the thread
//! that started it ends, for any reason. There is one gap: the starter may end before `setpriv` has
//! made its request. If the starting process is killed, a shell then notices that its parent has
//! changed. If only the thread would end, [`start`] does not return before.

use std::io::{self, Read};
use std::ops::{Deref, DerefMut};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use std::{fs, process, thread};

use crate::BedError;

/// The Debian package of each program.
const PACKAGES: [(&str, &str); 5] = [
    ("ip", "iproute2"),
    ("ping", "iputils-ping"),
    ("curl", "curl"),
    ("iperf3", "iperf3"),
    ("ethtool", "ethtool"),
];

/// Interval of checks whether a program has ended.
const LOOK: Duration = Duration::from_millis(5);

/// A shell's exit status if there is no such program. Source: POSIX.1-2017, sh, "EXIT STATUS".
const NOT_FOUND: i32 = 127;

/// The name of the threads that start programs. The kernel keeps 15 bytes of it.
pub(crate) const HOST_THREAD: &str = "testbed-host";

/// Arguments of [`command`] before the program's name.
const WRAPPER_ARGUMENTS: usize = 7;

/// A child that is killed when this is dropped, so that a failing test leaves no process behind.
/// Put it before the fields that the child uses: fields are dropped in order.
pub struct Killed(pub Child);

impl Deref for Killed {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Killed {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A program that runs on a host. Dropping it kills it.
pub struct Program(Killed);

impl Program {
    /// Returns its pid.
    pub fn process_id(&self) -> u32 {
        self.0.id()
    }

    /// Kills the program with SIGKILL and waits until it is gone.
    pub fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }

    /// Waits until the program ends, and returns whether it succeeded and its output.
    ///
    /// # Errors
    /// Errors from the kernel.
    pub fn finish(mut self) -> io::Result<(bool, String)> {
        let mut text = String::new();
        if let Some(mut output) = self.0.stdout.take() {
            output.read_to_string(&mut text)?;
        }
        Ok((self.0.wait()?.success(), text))
    }

    /// Waits until the program ends, for at most `limit`. Returns false if it has not ended. Its
    /// output meanwhile must fit into a pipe.
    ///
    /// # Errors
    /// Errors from the kernel.
    pub fn ends_within(&mut self, limit: Duration) -> io::Result<bool> {
        let began = Instant::now();
        while self.0.try_wait()?.is_none() {
            if began.elapsed() >= limit {
                return Ok(false);
            }
            thread::sleep(LOOK);
        }
        Ok(true)
    }

    /// Reads the program's output up to a line that contains `text`. False if it ends before.
    ///
    /// # Errors
    /// Errors from the kernel.
    pub fn wait_for(&mut self, text: &str) -> io::Result<bool> {
        let Some(output) = self.0.stdout.as_mut() else { return Ok(false) };
        let (mut seen, mut byte) = (Vec::new(), [0]);
        while output.read(&mut byte)? > 0 {
            seen.push(byte[0]);
            if seen.ends_with(text.as_bytes()) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Makes the command that runs `name` and dies with its starter.
pub(crate) fn command(name: &str, arguments: &[&str]) -> Command {
    let check = format!("[ $PPID = {} ] && exec \"$@\"", process::id());
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--", "sh", "-c", &check, "sh", name]).args(arguments);
    command.stdin(Stdio::null());
    command
}

pub(crate) fn start(command: &mut Command) -> io::Result<Program> {
    let child = command.stdout(Stdio::piped()).spawn()?;
    let name = format!("/proc/{}/comm", child.id());
    // The process first has its starter's name, then setpriv's. It has another name once the kernel
    // knows which thread to watch.
    let is_early = |name: String| [HOST_THREAD, "setpriv"].contains(&name.trim());
    while fs::read_to_string(&name).is_ok_and(is_early) {
        thread::yield_now();
    }
    Ok(Program(Killed(child)))
}

/// Returns the output of a command if it succeeded.
pub(crate) fn checked(
    name: &str,
    command: &Command,
    output: io::Result<Output>,
) -> Result<String, BedError> {
    let output = output.map_err(|error| not_started(name, error))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let package = PACKAGES.iter().find(|(program, _)| *program == name);
    if let (Some(NOT_FOUND), Some((_, package))) = (output.status.code(), package) {
        return Err(BedError::Missing { program: name.to_owned(), package });
    }
    let arguments =
        command.get_args().skip(WRAPPER_ARGUMENTS).map(|argument| argument.to_string_lossy());
    Err(BedError::Failed {
        command: arguments.collect::<Vec<_>>().join(" "),
        status: output.status.to_string(),
        message: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
    })
}

pub(crate) fn not_started(name: &str, error: io::Error) -> BedError {
    match error.kind() {
        io::ErrorKind::NotFound => {
            BedError::Missing { program: "setpriv".to_owned(), package: "util-linux" }
        }
        _ => BedError::NotStarted { program: format!("setpriv {name}"), error },
    }
}
