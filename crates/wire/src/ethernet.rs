//! What a frame takes on an Ethernet line besides its own bytes.
//!
//! Source: IEEE 802.3, 3.1.1 and 4.4.2.

/// The frame check sequence behind each frame.
pub const FCS_BYTES: u32 = 4;

/// What is between the FCS of a frame and the next frame: gap 12, preamble 8.
pub const GAP_BYTES: u32 = 20;
