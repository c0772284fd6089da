//! What a frame takes on an Ethernet line in addition to its own bytes.
//!
//! Source: IEEE 802.3, 3.1.1 and 4.4.2.

/// Bytes of the frame check sequence after each frame.
pub const FCS_BYTES: u32 = 4;

/// Bytes between the FCS of a frame and the next frame: gap 12, preamble 8.
pub const GAP_BYTES: u32 = 20;
