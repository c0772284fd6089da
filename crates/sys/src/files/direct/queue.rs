//! Several writes of a file in flight at a time, in order.
//!
//! ```text
//!   in hand: filled by the caller --submit--> under way: the kernel reads it --done--> free
//!      ^------------------------------- the next in hand --------------------------------'
//! ```
//!
//! With one write at a time the disk is idle while the next buffer is filled, and the processor is
//! idle while the disk writes. So a buffer is handed to io_uring and another one is filled
//! meanwhile. The buffers are registered if the rights and the limit on locked memory allow it.
//! Then the kernel looks up their pages once, not at each write.
//!
//! The kernel writes the buffers one after the other, in order. A growing file takes one write at a
//! time anyway, and a file whose writer was killed has no hole (decision 0032). So the disk never
//! waits for the caller, and the caller seldom for the disk.
//!
//! A thread that has given up its rights makes no ring, and takes one of those from before:
//! [`keep_rings`]. Without io_uring, or for a file written through the page cache, a submit writes
//! the buffer and then returns. The caller sees no difference but the time.
//!
//! Ownership: the queue owns all buffers, and lends only the one in hand.
//!
//! # Invariants
//! - Q1. The buffer in hand is not under way. A buffer under way is neither lent nor freed.
//! - Q2. [`WriteQueue::written`] counts a write only when it and all earlier writes are complete.
//! - Q3. The file stays open under one descriptor as long as a write of it is under way. The kernel
//!   looks up the descriptor when it begins a write, which may be long after the submit.

mod pool;
mod ring;
#[cfg(all(test, not(miri)))]
mod tests;

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

pub use pool::keep_rings;
use ring::{Done, Ring};

use super::{ALIGNMENT, AlignedBuffer, OutputFile, WriteError, WritePath};

/// How the buffers of a [`WriteQueue`] are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueMode {
    /// By io_uring, several at a time.
    Ring {
        /// The maximum.
        writes: usize,
        /// Whether the buffers are registered with the kernel.
        is_registered: bool,
    },
    /// One after the other.
    Plain {
        /// Why io_uring is not used.
        reason: String,
    },
}

impl fmt::Display for QueueMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ring { writes, is_registered: true } => {
                write!(f, "io_uring, {writes} writes at a time, registered buffers")
            }
            Self::Ring { writes, is_registered: false } => {
                write!(f, "io_uring, {writes} writes at a time")
            }
            Self::Plain { reason } => write!(f, "one write at a time ({reason})"),
        }
    }
}

/// A submitted write that is not yet counted.
#[derive(Clone, Copy, Debug)]
struct Submitted {
    buffer: usize,
    offset: u64,
    is_whole: bool,
}

/// Buffers of one size, and their writes to a file.
pub struct WriteQueue {
    buffers: Vec<AlignedBuffer>,
    /// The buffer that the caller fills.
    in_hand: usize,
    free: Vec<usize>,
    /// In submission order.
    submitted: VecDeque<Submitted>,
    written: u64,
    /// The queue's own descriptor of the file, from the first submit to `abandon` (Q3).
    file: Option<OwnedFd>,
    ring: Option<Ring>,
    mode: QueueMode,
}

impl WriteQueue {
    /// Allocates the buffers, of `bytes` each, for up to `writes` writes at a time, in `[1, 64]`.
    ///
    /// # Errors
    /// Out of memory.
    pub fn new(writes: usize, bytes: usize) -> io::Result<Self> {
        let writes = writes.clamp(1, 64);
        let (ring, mode) = match pool::take(writes) {
            Ok(ring) => (Some(ring), QueueMode::Ring { writes, is_registered: false }),
            Err(error) => {
                let reason = format!("io_uring: {error}");
                (None, QueueMode::Plain { reason })
            }
        };
        let count = if ring.is_some() { writes + 1 } else { 1 };
        let buffers = (0..count).map(|_| AlignedBuffer::new(bytes)).collect::<Result<_, _>>()?;
        let (free, submitted) = ((1..count).rev().collect(), VecDeque::new());
        let (in_hand, written, file) = (0, 0, None);
        let mut queue = Self { buffers, in_hand, free, submitted, written, file, ring, mode };
        if let (Some(ring), QueueMode::Ring { is_registered, .. }) =
            (&mut queue.ring, &mut queue.mode)
        {
            *is_registered = ring.register(&queue.buffers);
        }
        Ok(queue)
    }

    /// How buffers are written, if the file is written directly.
    pub fn mode(&self) -> &QueueMode {
        &self.mode
    }

    /// The buffer in hand.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.buffers[self.in_hand]
    }

    /// The buffer in hand, for the caller to fill.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.buffers[self.in_hand]
    }

    /// Completed writes, counted up to the first one that is not complete.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Begins to write the buffer in hand at `offset` of the file, and takes another buffer in
    /// hand, with arbitrary content. Waits if the maximum of writes is under way. The file must
    /// stay the same until [`abandon`](Self::abandon).
    ///
    /// # Errors
    /// As for [`OutputFile::write_all_at`], of any write so far. Then nothing is under way, and the
    /// caller must not submit again before [`abandon`](Self::abandon).
    pub fn submit(&mut self, file: &mut OutputFile, offset: u64) -> Result<(), WriteError> {
        let is_direct = *file.write_path() == WritePath::Direct;
        if self.ring.is_none() || !is_direct {
            // Q2: a file that left direct mode may have earlier writes under way.
            self.wait_all(file)?;
            file.write_all_at(&self.buffers[self.in_hand], offset)?;
            self.written += 1;
            return Ok(());
        }
        self.settle(file, false)?;
        while self.free.is_empty() {
            self.settle(file, true)?;
        }
        let own = match self.file.take() {
            Some(own) => own,
            None => file.as_fd().try_clone_to_owned().map_err(|error| file.fail("fcntl", error))?,
        };
        let own = self.file.insert(own);
        let Some(next) = self.free.pop() else { return Ok(()) };
        // Q1: another buffer is in hand from here on, even if the call fails.
        let buffer = std::mem::replace(&mut self.in_hand, next);
        self.submitted.push_back(Submitted { buffer, offset, is_whole: false });
        if let Some(ring) = &mut self.ring {
            ring.submit(own.as_fd(), &self.buffers[buffer], buffer, offset)
                .map_err(|source| file.fail("io_uring_enter", source))?;
        }
        Ok(())
    }

    /// Waits until no write is under way.
    ///
    /// # Errors
    /// As for [`submit`](Self::submit).
    pub fn wait_all(&mut self, file: &mut OutputFile) -> Result<(), WriteError> {
        while self.under_way() > 0 {
            self.settle(file, true)?;
        }
        Ok(())
    }

    /// Waits until no write is under way, ignores results, and forgets all submitted writes. Then
    /// the queue is ready for another file.
    pub fn abandon(&mut self) {
        while let Some(done) = self.ring.as_mut().and_then(|ring| ring.wait().ok().flatten()) {
            self.free.push(done.buffer);
        }
        self.submitted.clear();
        self.written = 0;
        if self.under_way() == 0 {
            self.file = None;
        }
    }

    /// Writes that the kernel has and whose completion was not seen.
    fn under_way(&self) -> usize {
        self.ring.as_ref().map_or(0, Ring::under_way)
    }

    /// Handles completed writes. If `waits`, first waits for one.
    fn settle(&mut self, file: &mut OutputFile, mut waits: bool) -> Result<(), WriteError> {
        let Some(ring) = &mut self.ring else { return Ok(()) };
        let mut failure = None;
        loop {
            let done = if waits { ring.wait() } else { Ok(ring.next_done()) };
            let done = done.map_err(|source| file.fail("io_uring_enter", source))?;
            let Some(Done { buffer, result }) = done else { break };
            waits = false;
            self.free.push(buffer);
            let is_it = |write: &&mut Submitted| write.buffer == buffer && !write.is_whole;
            let Some(write) = self.submitted.iter_mut().find(is_it) else { continue };
            // We write the rest of a short write here, which also reports the error if it fails.
            // The kernel cancels writes of a thread that exits; that is no error.
            let bytes = &self.buffers[buffer];
            let count = result.unwrap_or(0);
            let count = if count < bytes.len() { count - count % ALIGNMENT } else { count };
            let outcome = file.write_all_at(&bytes[count..], write.offset + count as u64);
            match outcome {
                Ok(()) => write.is_whole = true,
                Err(error) => failure = failure.or(Some(error)),
            }
            // All other submitted writes complete first.
            waits |= failure.is_some();
        }
        while self.submitted.front().is_some_and(|write| write.is_whole) {
            self.submitted.pop_front();
            self.written += 1;
        }
        failure.map_or(Ok(()), Err)
    }
}

impl Drop for WriteQueue {
    /// Waits for the writes under way, because the kernel still reads their buffers.
    fn drop(&mut self) {
        self.abandon();
        if self.under_way() > 0 {
            // Q1 and Q3: if we cannot wait for them, memory and file stay with the kernel.
            std::mem::forget((std::mem::take(&mut self.buffers), self.file.take()));
        }
        self.ring.take().into_iter().for_each(pool::give_back);
    }
}
