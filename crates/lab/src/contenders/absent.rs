//! Contenders that the founding documents measured but that cannot run here. Their rows show what
//! is missing, beside the document's own figures. They never run.

use std::path::Path;

use super::{Adapter, Job, Sample};
use crate::scenario::Work;

/// A contender that is listed only for the document's figures.
pub(super) struct Absent {
    name: &'static str,
    works: &'static [Work],
    /// A file that exists where the contender is installed.
    sign: &'static str,
    needs: &'static str,
}

/// PF_RING with its own kernel module, without a licence.
pub(super) const PF_RING: Absent = Absent {
    name: "pf_ring",
    works: &[Work::Count, Work::Record],
    sign: "/proc/net/pf_ring",
    needs: "the kernel module pf_ring, built for this kernel, and pfcount: \
            https://github.com/ntop/PF_RING",
};

/// PF_RING with cards' memory mapped (DNA, now ZC).
pub(super) const PF_RING_ZC: Absent = Absent {
    name: "pf_ring-zc",
    works: &[Work::Count, Work::Balance, Work::Bounce],
    sign: "/proc/net/pf_ring",
    needs: "the kernel module pf_ring, a card with ntop's ZC driver, and a licence: \
            https://www.ntop.org",
};

impl Adapter for Absent {
    fn name(&self) -> &'static str {
        self.name
    }

    fn works(&self) -> &'static [Work] {
        self.works
    }

    fn can_run(&self) -> Result<(), String> {
        let needs = self.needs;
        match Path::new(self.sign).exists() {
            true => Err(format!(
                "it needs {needs}; {} is installed, but the lab has no adapter for it",
                self.sign
            )),
            false => Err(format!("it takes {needs}")),
        }
    }

    fn command(&self, _: &Job<'_>) -> String {
        String::new()
    }

    fn measure(&self, _: &Job<'_>) -> Result<Sample, String> {
        self.can_run().map(|()| Sample::default())
    }
}
