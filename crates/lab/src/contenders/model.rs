//! What the bus carries for a packet, and where a slot is full: arithmetic on what a simulated
//! card does, in its three modes of DMA.

use burstline_nicsim::Mode;
use burstline_nicsim::pcie::{self, Batch, Bus, PaperRules, ceiling};

use super::{Adapter, Job, Sample};
use crate::scenario::Work;

/// Slots, and the names of their ceilings.
const SLOTS: [(&str, [&str; 2]); 2] = [
    ("2.0x8", ["ceiling_mpps_2x8", "ceiling_line_gbps_2x8"]),
    ("3.0x16", ["ceiling_mpps_3x16", "ceiling_line_gbps_3x16"]),
];

/// Bytes of a TLP and of a read request at most. Source: the paper's section 4 for the first.
const MAX_PAYLOAD: u64 = 256;
const MAX_REQUEST: u64 = 512;

/// One mode.
pub(super) struct Model(&'static str, Mode);

impl Model {
    pub(super) const WRITEBACK: Self = Self("dma-writeback", Mode::Writeback);
    pub(super) const INLINE: Self = Self("dma-inline", Mode::Inline);
    pub(super) const CONTIGUOUS: Self = Self("dma-contiguous", Mode::Contiguous);
}

impl Adapter for Model {
    fn name(&self) -> &'static str {
        self.0
    }

    fn works(&self) -> &'static [Work] {
        &[Work::Model]
    }

    fn version(&self) -> String {
        super::own_version()
    }

    fn command(&self, _: &Job<'_>) -> String {
        format!("burstline lab pcie, mode {}", self.1.name())
    }

    fn measure(&self, job: &Job<'_>) -> Result<Sample, String> {
        let (rules, length) = (PaperRules::default(), job.frame_bytes() as u64);
        let mut sample = Sample { is_model: true, ..Sample::default() };
        let bytes = rules.upload(self.1, length);
        sample.set("bus_bytes", "bytes per packet, up, as the paper counts", bytes);
        sample.set("saved_percent", "%", rules.saved_percent(self.1, length));
        let utilised = 100.0 * length as f64 / bytes;
        sample.set("utilisation_percent", "% of bytes that are the packet's", utilised);
        for (slot, [mpps, line]) in SLOTS {
            let link = slot.parse().map_err(|error| format!("{slot}: {error}"))?;
            let bus = Bus::new(link, MAX_PAYLOAD, MAX_REQUEST);
            let bus = bus.map_err(|error| error.to_string())?;
            let work = pcie::Work::Receive;
            let most = ceiling(&bus, &Batch::default(), self.1, work, length);
            sample.set(mpps, "Mpps", most.packets_per_s / 1e6);
            sample.set_on(line, "Gbit/s", "line", most.line_bits_per_s(length) / 1e9);
        }
        Ok(sample)
    }
}
