//! Options of sockets.

use burstline_sys::memory::{NodeId, PageChoice};

/// Who writes packets into the UMEM: the kernel or the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Copying {
    /// The device if its driver supports zero-copy, otherwise the kernel.
    #[default]
    Auto,
    /// The kernel copies, even if the driver supports zero-copy.
    Copy,
    /// The device, or an error.
    Zero,
}

/// Options of a receiving socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketOptions {
    /// Bytes of a frame: 2048 or 4096.
    pub frame_bytes: u32,
    /// Frames to receive into, a power of two. All of them can be in the fill ring.
    pub frames: u32,
    /// Entries of the rx ring, a power of two.
    pub rx_entries: u32,
    /// Copy or zero-copy.
    pub copying: Copying,
    /// Whether packets may span several frames (Linux 6.6). If the kernel does not support this,
    /// packets longer than a frame are lost, and counted.
    pub is_multi_buffer: bool,
    /// Whether to make a system call only when the kernel requests it, instead of at every poll.
    pub needs_wakeup: bool,
    /// Packets per poll that the driver's own loop takes on our core (`SO_PREFER_BUSY_POLL`, Linux
    /// 5.11), in place of its interrupts. `None` leaves the driver's interrupts on.
    pub busy_poll_packets: Option<u16>,
    /// Pages of the UMEM.
    pub pages: PageChoice,
    /// The NUMA node of the UMEM.
    pub node: Option<NodeId>,
}

impl Default for SocketOptions {
    /// 8 MiB of frames: a sleeping reader may be away for 2 ms at 2 Mpps. The kernel uses all of
    /// them in turn, so more frames need more cache. We once measured `xdp:v1?frames=N` by hand,
    /// with an injector on the other core. It reached 4.8 Mpps with 2,048 frames, 4.6 with 4,096,
    /// 3.9 with 8,192 and 3.5 with 16,384.
    fn default() -> Self {
        Self {
            frame_bytes: 2048,
            frames: 4096,
            rx_entries: 4096,
            copying: Copying::Auto,
            is_multi_buffer: true,
            needs_wakeup: true,
            busy_poll_packets: None,
            pages: PageChoice::Auto,
            node: None,
        }
    }
}

/// Options of a sending socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SenderOptions {
    /// Bytes of a frame: 2048 or 4096. No packet may be longer.
    pub frame_bytes: u32,
    /// Frames, and entries of the tx and the completion ring: a power of two.
    pub frames: u32,
    /// Copy or zero-copy.
    pub copying: Copying,
    /// Whether to make a system call only when the kernel requests it, instead of at every
    /// [`send`](super::Sender::send).
    pub needs_wakeup: bool,
    /// Pages of the memory.
    pub pages: PageChoice,
    /// Its NUMA node.
    pub node: Option<NodeId>,
}

impl Default for SenderOptions {
    /// 4 MiB of frames. The newest free frame is used first, so a fast device uses few.
    fn default() -> Self {
        Self {
            frame_bytes: 2048,
            frames: 2048,
            copying: Copying::Auto,
            needs_wakeup: true,
            pages: PageChoice::Auto,
            node: None,
        }
    }
}
