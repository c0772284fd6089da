//! Injects arbitrary frames, which may differ in every byte and in length.

use std::io;
use std::os::unix::net::UnixDatagram;

use super::generator::{Feed, Generator};
use super::table::{FRAMES_AT_ONCE, FrameTable};
use super::{INJECTED_BYTES_MAX, InjectError, Target, attached};
use burstline_sys::interface::{Interface, LinkState};

/// Injects pushed frames, in order.
pub struct BurstInjector {
    generator: Generator,
    table: FrameTable,
    interface: Interface,
    /// For queries about the interface, in its namespace.
    questions: UnixDatagram,
    /// The program that gets the frames; `None` for the stack.
    target: Option<u32>,
    pushed: u64,
    /// Bytes of the longest frame in the table.
    longest: usize,
}

impl BurstInjector {
    /// Bytes of the shortest frame: an Ethernet header.
    pub const SHORTEST: usize = 14;

    /// Makes an injector for an interface of the calling thread's network namespace; use it only
    /// from threads in that namespace. `receiver: None` selects the program if there is one.
    ///
    /// # Errors
    /// See [`InjectError`]. Needs root in the first user namespace.
    pub fn open(interface: &str, receiver: Option<Target>) -> Result<Self, InjectError> {
        let questions = UnixDatagram::unbound().map_err(InjectError::Parking)?;
        let found = Interface::by_name(&questions, interface);
        let found = found.map_err(|_| InjectError::NoSuchInterface(interface.to_owned()))?;
        let target = match receiver {
            Some(Target::Stack) => None,
            _ => attached(found.index)?,
        };
        if receiver == Some(Target::Program) && target.is_none() {
            return Err(InjectError::NoProgram(interface.to_owned()));
        }
        let table = FrameTable::create()?;
        let generator = Generator::new(target, Feed::Table(&table))?;
        Ok(Self { generator, table, interface: found, questions, target, pushed: 0, longest: 0 })
    }

    /// The interface as it was at opening.
    pub fn interface(&self) -> &Interface {
        &self.interface
    }

    /// Queries the state of the interface. Cost: five system calls.
    ///
    /// # Errors
    /// Errors from the kernel, unless the interface is gone.
    pub fn link_state(&self) -> io::Result<LinkState> {
        LinkState::of(&self.questions, self.interface.index)
    }

    /// Returns whether the interface no longer has the program of [`target`](Self::target).
    ///
    /// # Errors
    /// As for [`attached`].
    pub fn is_outdated(&self) -> Result<bool, InjectError> {
        Ok(attached(self.interface.index)? != self.target)
    }

    /// The id of the program that gets the frames; `None` for the stack.
    pub fn target(&self) -> Option<u32> {
        self.target
    }

    /// Copies a frame into the table, for the next [`run`](Self::run) to inject. Returns false if
    /// there is no room; then nothing was done.
    ///
    /// Cost: the copy.
    ///
    /// # Panics
    /// If the frame has fewer than [`SHORTEST`](Self::SHORTEST) bytes or more than
    /// [`INJECTED_BYTES_MAX`](super::INJECTED_BYTES_MAX).
    #[inline]
    pub fn push(&mut self, frame: &[u8]) -> bool {
        assert!(frame.len() >= Self::SHORTEST, "{} bytes", frame.len());
        let in_table = self.pushed - self.generator.handled();
        if in_table == FRAMES_AT_ONCE as u64 || !self.table.write(self.pushed, frame) {
            return false;
        }
        self.pushed += 1;
        self.longest = self.longest.max(frame.len());
        true
    }

    /// Injects the pushed frames.
    ///
    /// Cost: one system call of about 10 us, plus some 100 ns per frame with its receiver's work.
    ///
    /// # Errors
    /// [`InjectError::Bpf`] if the interface is gone.
    pub fn run(&mut self) -> Result<(), InjectError> {
        let waiting = self.waiting();
        if waiting == 0 {
            return Ok(());
        }
        // The program shortens it to each frame's length, because lengthening would clear bytes.
        const ZEROS: [u8; INJECTED_BYTES_MAX] = [0; INJECTED_BYTES_MAX];
        let room = self.longest.max(Self::SHORTEST);
        self.generator.run(&ZEROS[..room], self.interface.index, waiting as u32)?;
        if self.waiting() == 0 {
            self.table.clear();
            self.longest = 0;
        }
        Ok(())
    }

    /// Frames pushed so far.
    pub fn pushed(&self) -> u64 {
        self.pushed
    }

    /// Frames that the receiver got so far.
    pub fn injected(&self) -> u64 {
        self.generator.generated()
    }

    /// Frames that the receiver did not get: the kernel refused the program's request.
    pub fn failed(&self) -> u64 {
        self.generator.not_taken()
    }

    /// Frames not handled by any [`run`](Self::run) yet: a signal ended the last one.
    pub fn waiting(&self) -> u64 {
        self.pushed - self.generator.handled()
    }
}
