//! A simulated card in its three DMA modes. It calculates the bus load per packet and the rate that
//! saturates a slot, and measures the cost of a forwarding driver.

use burstline_nicsim::Mode;
use burstline_nicsim::pcie::{self, Batch, Bus, PaperRules, ceiling};

use super::{Adapter, Job, Sample, cards};
use crate::scenario::Work;

/// Slots, and the metric names of their maximum rates.
const SLOTS: [(&str, [&str; 2]); 7] = [
    ("2.0x8", ["ceiling_mpps_2x8", "ceiling_line_gbps_2x8"]),
    ("3.0x8", ["ceiling_mpps_3x8", "ceiling_line_gbps_3x8"]),
    ("3.0x16", ["ceiling_mpps_3x16", "ceiling_line_gbps_3x16"]),
    ("4.0x8", ["ceiling_mpps_4x8", "ceiling_line_gbps_4x8"]),
    ("4.0x16", ["ceiling_mpps_4x16", "ceiling_line_gbps_4x16"]),
    ("5.0x8", ["ceiling_mpps_5x8", "ceiling_line_gbps_5x8"]),
    ("5.0x16", ["ceiling_mpps_5x16", "ceiling_line_gbps_5x16"]),
];

/// Maximum size of a TLP and of a read request. Source of the first: the paper's section 4.
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
        &[Work::Model, Work::Dma]
    }

    fn version(&self) -> String {
        super::own_version()
    }

    fn command(&self, job: &Job<'_>) -> String {
        match job.work {
            Work::Dma => cards::command(self.1),
            _ => format!("arithmetic, mode {}", self.1.name()),
        }
    }

    fn measure(&self, job: &Job<'_>) -> Result<Sample, String> {
        match job.work {
            Work::Dma => cards::forward(job, self.1),
            _ => self.work_out(job),
        }
    }
}

impl Model {
    fn work_out(&self, job: &Job<'_>) -> Result<Sample, String> {
        let (rules, length) = (PaperRules::default(), job.frame_bytes() as u64);
        let work = match job.case {
            Some("transmit") => pcie::Work::Transmit,
            Some("forward") => pcie::Work::Forward,
            _ => pcie::Work::Receive,
        };
        let mut sample = Sample { is_model: true, ..Sample::default() };
        // The paper counts upstream bytes for a received packet.
        if work == pcie::Work::Receive {
            let bytes = rules.upload(self.1, length);
            sample.set("bus_bytes", "bytes per packet, up, as the paper counts", bytes);
            sample.set("saved_percent", "%", rules.saved_percent(self.1, length));
            let utilised = 100.0 * length as f64 / bytes;
            sample.set("utilisation_percent", "% of bytes that are the packet's", utilised);
        }
        for (slot, [mpps, line]) in SLOTS {
            let link = slot.parse().map_err(|error| format!("{slot}: {error}"))?;
            let bus = Bus::new(link, MAX_PAYLOAD, MAX_REQUEST);
            let bus = bus.map_err(|error| error.to_string())?;
            let most = ceiling(&bus, &Batch::default(), self.1, work, length);
            // These are the same in every slot.
            sample.set("bus_up_bytes", "bytes per packet", most.up_bytes);
            sample.set("bus_down_bytes", "bytes per packet", most.down_bytes);
            sample.set(mpps, "Mpps", most.packets_per_s / 1e6);
            sample.set_on(line, "Gbit/s", "line", most.line_bits_per_s(length) / 1e9);
        }
        Ok(sample)
    }
}
