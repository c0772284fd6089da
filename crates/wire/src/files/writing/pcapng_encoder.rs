//! Plain pcapng for pipes and other tools.

use crate::files::description::{
    InterfaceDescription, SectionDescription, write_interface, write_section, write_statistics,
};
use crate::files::encode::{EncodeError, PacketToWrite, write_packet, write_plain};
use crate::files::{Counters, MAX_CAPTURED, PlainItem};
use crate::headers::LinkType;

/// Writes pcapng blocks into lent bytes, one block per call.
///
/// The order is: [`section`](Self::section) once, [`interface`](Self::interface) for each interface
/// before its first packet, [`packet`](Self::packet)s, [`statistics`](Self::statistics) for each
/// interface at the end. Every call returns the bytes it wrote at the start of `out`; 0 means that
/// `out` has no room and nothing was written.
#[derive(Clone, Debug)]
pub struct PcapngEncoder {
    link: LinkType,
    snapshot_length: u32,
    interfaces: u32,
}

impl PcapngEncoder {
    /// Sets what libpcap requires to be constant in a file. A `snapshot_length` of 0 is no limit.
    pub fn new(link: LinkType, snapshot_length: u32) -> Self {
        PcapngEncoder { link, snapshot_length, interfaces: 0 }
    }

    /// Writes the section header and numbers interfaces from 0 again.
    ///
    /// # Errors
    /// [`EncodeError::TextTooLong`].
    pub fn section(
        &mut self,
        out: &mut [u8],
        section: &SectionDescription<'_>,
    ) -> Result<usize, EncodeError> {
        let bytes = write_section(out, section)?;
        if bytes > 0 {
            self.interfaces = 0;
        }
        Ok(bytes)
    }

    /// Describes the next interface; its number is the previous [`interfaces`](Self::interfaces).
    ///
    /// # Errors
    /// [`EncodeError::LinkDiffers`], [`EncodeError::TextTooLong`].
    pub fn interface(
        &mut self,
        out: &mut [u8],
        interface: &InterfaceDescription<'_>,
    ) -> Result<usize, EncodeError> {
        if interface.link != self.link {
            let (file, interface) = (self.link.0, interface.link.0);
            return Err(EncodeError::LinkDiffers { file, interface });
        }
        let bytes = write_interface(out, interface, self.snapshot_length)?;
        self.interfaces += u32::from(bytes > 0);
        Ok(bytes)
    }

    /// Returns how many interfaces are described.
    pub fn interfaces(&self) -> u32 {
        self.interfaces
    }

    /// Writes a packet, with only the options it needs.
    ///
    /// # Errors
    /// [`EncodeError::UnknownInterface`]; [`EncodeError::TooLong`] above [`MAX_CAPTURED`].
    ///
    /// Cost: tens of instructions and the copy of the packet's bytes.
    #[inline]
    pub fn packet(&self, out: &mut [u8], packet: &PacketToWrite<'_>) -> Result<usize, EncodeError> {
        self.check(packet)?;
        Ok(write_packet(out, packet))
    }

    /// Writes a whole packet without direction, loss or queue. Returns 0 also if
    /// [`packet`](Self::packet) would return an error.
    ///
    /// Cost: some 20 instructions and the copy of the packet's bytes.
    #[inline]
    pub fn plain(&self, out: &mut [u8], interface: u32, packet: &PlainItem<'_>) -> usize {
        let is_known = interface < self.interfaces && packet.bytes.len() <= MAX_CAPTURED as usize;
        let Some(block) = out.get_mut(..packet.block_bytes()).filter(|_| is_known) else {
            return 0;
        };
        write_plain(block, interface, packet.bytes, packet.time_ns);
        block.len()
    }

    /// Writes the closing counts of an interface.
    ///
    /// # Errors
    /// [`EncodeError::UnknownInterface`].
    pub fn statistics(
        &self,
        out: &mut [u8],
        interface: u32,
        time_ns: u64,
        counters: &Counters,
    ) -> Result<usize, EncodeError> {
        self.check_interface(interface)?;
        Ok(write_statistics(out, interface, time_ns, counters))
    }

    #[inline]
    pub(crate) fn check(&self, packet: &PacketToWrite<'_>) -> Result<(), EncodeError> {
        let (captured, capacity) = (packet.bytes.len(), MAX_CAPTURED as usize);
        if captured > capacity {
            return Err(EncodeError::TooLong { captured, capacity });
        }
        self.check_interface(packet.interface)
    }

    #[inline]
    fn check_interface(&self, interface: u32) -> Result<(), EncodeError> {
        if interface >= self.interfaces {
            let described = self.interfaces;
            return Err(EncodeError::UnknownInterface { interface, described });
        }
        Ok(())
    }
}
