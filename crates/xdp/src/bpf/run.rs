//! Runs a program: on our own bytes, or on live frames that then follow its verdict.
//!
//! Live frames are real: they belong to an interface and a queue. The kernel acts on the program's
//! result, up to delivery to a socket or the network stack. A program that is attached somewhere,
//! even to an unused interface, starts about a hundred times faster. The kernel already has it in
//! its dispatcher, and need not wait for all cores to put it there.
//!
//! Source: net/bpf/test_run.c of Linux 6.18.

use std::os::fd::{AsFd, AsRawFd};

use super::call::{self, ProgramTestRun};
use super::{BpfError, Program};

/// Act on the program's result. Source: BPF_F_TEST_XDP_LIVE_FRAMES; kernel 5.18.
const LIVE_FRAMES: u32 = 1 << 1;

/// Bytes by which a program may extend its input, at both ends together.
const GROWTH_BYTES: usize = 4096;

/// The result of a run on our own bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestRun {
    /// The program's result.
    pub value: u32,
    /// The bytes as the program left them.
    pub output: Vec<u8>,
    /// Average nanoseconds per run.
    pub duration_ns: u32,
}

/// The interface and the number of live frames. They arrive on queue 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LiveRun {
    /// Number of the interface, in the calling thread's network namespace.
    pub interface_index: u32,
    /// The number of frames, in `[1, 2^31)`.
    pub repeat: u32,
    /// Frames at a time, in `[1, 256]`.
    pub batch: u32,
}

/// struct xdp_md, include/uapi/linux/bpf.h.
#[repr(C)]
struct XdpContext {
    data: u32,
    data_end: u32,
    data_meta: u32,
    ingress_ifindex: u32,
    rx_queue_index: u32,
    egress_ifindex: u32,
}

const _: () = assert!(size_of::<XdpContext>() == 24);

impl Program {
    /// Runs the program `repeat` times, in `[1, 2^31)`, on `input`, of at least 14 bytes for XDP.
    /// Each run sees the changes of the previous one.
    ///
    /// # Errors
    /// [`BpfError`] with the kernel's error.
    pub fn test_run(&self, input: &[u8], repeat: u32) -> Result<TestRun, BpfError> {
        let mut output = vec![0; input.len() + GROWTH_BYTES];
        let mut request = ProgramTestRun {
            data_out: call::address(output.as_mut_ptr()),
            data_size_out: output.len() as u32,
            ..self.request(input, repeat)
        };
        // SAFETY: B1: `input` and `output` have the sizes in the request.
        let result = unsafe { call::bpf(call::PROGRAM_TEST_RUN, &mut request) };
        result.map_err(BpfError::system("BPF_PROG_TEST_RUN"))?;
        output.truncate(request.data_size_out as usize);
        Ok(TestRun { value: request.retval, output, duration_ns: request.duration })
    }

    /// Runs the program on live frames, each with the bytes of `frame` unless an earlier run
    /// changed them: buffers are reused without a reset.
    ///
    /// The longest frame is a page less 640 to 800 bytes of the kernel; see its file above.
    ///
    /// # Errors
    /// [`BpfError`] with the kernel's error. `EINTR` after a signal: some frames may be sent.
    /// `EINVAL`: the frame is too long. `ENODEV`: no such interface.
    pub fn run_live(&self, frame: &[u8], run: &LiveRun) -> Result<(), BpfError> {
        let context = XdpContext {
            data: 0,
            data_end: frame.len() as u32,
            data_meta: 0,
            ingress_ifindex: run.interface_index,
            // Live frames always arrive on queue 0: `xdp_test_run_setup`.
            rx_queue_index: 0,
            egress_ifindex: 0,
        };
        let mut request = ProgramTestRun {
            ctx_in: call::address(&raw const context),
            ctx_size_in: size_of::<XdpContext>() as u32,
            flags: LIVE_FRAMES,
            batch_size: run.batch,
            ..self.request(frame, run.repeat)
        };
        // SAFETY: B1: `frame` and `context` have the sizes in the request; nothing is written back.
        let result = unsafe { call::bpf(call::PROGRAM_TEST_RUN, &mut request) };
        result.map(drop).map_err(BpfError::system("BPF_PROG_TEST_RUN of live frames"))
    }

    fn request(&self, input: &[u8], repeat: u32) -> ProgramTestRun {
        assert!(u32::try_from(input.len()).is_ok(), "{} bytes of input", input.len());
        ProgramTestRun {
            prog_fd: self.as_fd().as_raw_fd() as u32,
            data_in: call::address(input.as_ptr()),
            data_size_in: input.len() as u32,
            repeat,
            ..ProgramTestRun::default()
        }
    }
}
