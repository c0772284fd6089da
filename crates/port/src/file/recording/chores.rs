//! Chores after a file is closed: run a command for it, or remove it.
//!
//! A command may take longer than filling the next file, so another thread runs the chores in
//! sequence. A file is not removed before its own command has ended. A command has its own process
//! group: keys pressed at a terminal end the job, which waits for the command. If the job is
//! killed, the command goes on by itself. A job that became nobody has its helper run the command.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};

use burstline_sys::helper;
use burstline_sys::inode::FileId;
use burstline_sys::late;
use burstline_sys::privileges;

use super::OutputOptions;
use super::whereabouts::is_elsewhere;

/// A file created by this run, identified by its path and inode.
#[derive(Clone, Debug)]
pub(in super::super) struct Made {
    pub(in super::super) path: PathBuf,
    pub(in super::super) id: FileId,
    /// Its size, once it is closed and if space must be left; else 0.
    pub(in super::super) bytes: u64,
}

/// A chore.
#[derive(Debug)]
pub(super) enum Chore {
    /// Runs the command for a closed file, unless its path now leads elsewhere.
    Closed { path: PathBuf, id: Option<FileId> },
    /// Removes the file.
    Remove(Made),
}

/// The thread that runs chores. When dropped, it completes them first.
#[derive(Debug)]
pub(super) struct Chores {
    queue: Option<Sender<Chore>>,
    thread: Option<JoinHandle<()>>,
}

impl Chores {
    /// Starts the thread. `tell` gets a text per failed chore; `is_removed` is called after each
    /// removal, with the file's size.
    pub(super) fn start(
        options: &OutputOptions,
        tell: impl Fn(String) + Send + 'static,
        is_removed: impl Fn(u64) + Send + 'static,
    ) -> io::Result<Self> {
        let (queue, chores) = mpsc::channel();
        let (command, keeps) = (options.on_close.clone(), options.keeps_privileges);
        let (ready, is_ready) = mpsc::channel();
        let thread = thread::Builder::new().name("files".to_owned()).spawn(move || {
            // If privileges cannot be dropped, the job reports it.
            let gives_up = match command.is_empty() || helper::is_started() {
                true => privileges::give_up,
                false => privileges::give_up_but_programs,
            };
            let _ = keeps || gives_up().is_ok();
            // The thread that starts this one waits for it.
            let _ = ready.send(());
            for chore in chores {
                let outcome = match &chore {
                    Chore::Closed { path, id } => run(&command, path, *id),
                    Chore::Remove(made) => remove(made),
                };
                if let Err(what) = outcome {
                    tell(what);
                }
                if let Chore::Remove(made) = chore {
                    is_removed(made.bytes);
                }
            }
        })?;
        // From here the thread has what it keeps, so nobody takes it for a library's.
        let _ = is_ready.recv();
        Ok(Self { queue: Some(queue), thread: Some(thread) })
    }

    pub(super) fn give(&self, chore: Chore) {
        if let Some(queue) = &self.queue {
            // The thread lives as long as the queue.
            let _ = queue.send(chore);
        }
    }
}

impl Drop for Chores {
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(thread) = self.thread.take() {
            // It does not panic; if it did, its chores are not done, and the message is printed.
            let _ = thread.join();
        }
    }
}

/// Runs the command for a file.
fn run(command: &[String], path: &Path, id: Option<FileId>) -> Result<(), String> {
    let Some(program) = command.first() else { return Ok(()) };
    if id.is_some_and(|id| is_elsewhere(path, id)) {
        let path = path.display();
        return Err(format!("--on-close is not run: {path} was moved, removed or replaced"));
    }
    match late::run(command, path) {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("--on-close for {}: {program}: {status}", path.display())),
        Err(error) => Err(format!("--on-close for {}: {program}: {error}", path.display())),
    }
}

fn remove(made: &Made) -> Result<(), String> {
    let path = made.path.display();
    match late::symlink_metadata(&made.path) {
        Ok(found) if FileId::of(&found) == made.id && found.is_file() => {
            late::remove_file(&made.path).map_err(|error| format!("remove {path}: {error}"))
        }
        Ok(_) => Err(format!("{path} is not removed: another file has its name now")),
        // Another program has removed or moved it already.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(format!("remove {path}: {error}")),
    }
}
