//! Memory for files that is equally warm for all contenders.
//!
//! ```text
//!  a large page    | kept     | free     |     2 MiB of which half is free: the kernel gives it
//!                  | 1 MiB    | 1 MiB    |     not to the host, but to the next writer
//! ```
//!
//! A virtual machine may return memory that was free for a second to its host, in large pages that
//! are entirely free. Getting such a page back costs more than everything else measured here. The
//! contender that writes first or most would pay for it. So one half of each large page is kept in
//! use, and the other half stays in the machine when it is free. The kernel serves requests from
//! the smallest sufficient piece, so from these halves.
//!
//! The files are in a separate file system, mounted with `huge=within_size`: tmpfs then allocates
//! pages as large as each write, for either side. It is in a mount namespace of this thread and its
//! children, so nothing remains after the turn, when the thread ends.
//!
//! Source: page_reporting.c of Linux 6.18, `PAGE_REPORTING_MIN_ORDER`.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use burstline_sys::{mounts, topology};

use super::MEMORY;

/// Memory for a contender's buffers.
const BUFFERS: u64 = 128 << 20;

/// Memory left to other programs. At most half of the rest is kept and half is free; a larger
/// request ends in colder memory.
const OTHERS: u64 = 2 << 30;

/// Size of a large page of x86-64.
const LARGE: u64 = 2 << 20;

/// Memory in halves of large pages.
pub struct Store {
    folder: PathBuf,
    /// Bytes that are free in halves of pages.
    room: u64,
}

impl Store {
    /// Mounts the file system over its folder, for this thread and its children. Keeps halves of
    /// pages for files of up to `room` bytes.
    ///
    /// # Errors
    /// Errors of the kernel, above all a lack of memory.
    pub fn new(room: u64) -> Result<Self, String> {
        let mounted = mounts::enter_new_mounts();
        let mounted = mounted.and_then(|()| mounts::mount_memory(Path::new(MEMORY)));
        mounted.map_err(|error| format!("mounting memory over {MEMORY}: {error}"))?;
        let available = topology::available_bytes(None).map_err(|error| error.to_string())?;
        let room = (room + BUFFERS).min(available.saturating_sub(OTHERS) / 2);
        let this = Self { folder: Path::new(MEMORY).join("kept"), room };
        let told = |error| format!("{}: {error}", this.folder.display());
        fs::create_dir(&this.folder).map_err(told)?;
        this.keep_halves().map_err(told)?;
        Ok(this)
    }

    /// Touches the memory that the next contender will get, so that the machine has it.
    ///
    /// # Errors
    /// If there is not enough memory.
    pub fn warm(&self) -> Result<(), String> {
        let path = self.folder.join("touched");
        let touch = || -> io::Result<()> {
            let half = vec![0; (LARGE / 2) as usize];
            let mut file = File::create(&path)?;
            (0..self.room.div_ceil(LARGE / 2)).try_for_each(|_| file.write_all(&half))?;
            fs::remove_file(&path)
        };
        touch().map_err(|error| format!("{}: {error}", path.display()))
    }

    fn keep_halves(&self) -> io::Result<()> {
        let large = vec![0; LARGE as usize];
        let pages = self.room.div_ceil(LARGE / 2);
        let mut kept = Vec::new();
        for page in 0..pages {
            let path = self.folder.join(page.to_string());
            fs::write(&path, &large)?;
            kept.push(path);
        }
        // Truncated only now, because the kernel would reuse free pages first.
        for path in kept {
            File::options().write(true).open(path)?.set_len(LARGE / 2)?;
        }
        Ok(())
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder); // it may already be removed
    }
}
