//! What makes a machine lose packets: each defect with its cost, the source of that figure, and the
//! commands that fix it.
//!
//! A cost is a figure only if it was measured, and the finding names the source. Otherwise it says
//! what happens. Costs that follow from the machine's own numbers are computed. Nothing is changed.

mod cores;
mod dpdk;
mod interfaces;
mod memory;

use crate::inventory::Inventory;
use crate::plan::Plan;
pub use cores::{FAR_SOURCE, KERNEL_NEEDS, KernelNeed};
pub use dpdk::{Dpdk, DpdkDriver, dpdk_findings};

/// Something that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What was looked at: `huge pages`, `steering`.
    pub name: &'static str,
    /// Whether something is wrong.
    pub is_defect: bool,
    /// How it is, with the numbers.
    pub what: String,
    /// What a defect costs; empty if there is none.
    pub cost: String,
    /// Where the cost is from; empty if there is none.
    pub source: &'static str,
    /// The commands that mend a defect, for a root shell. None where no command does.
    pub mend: Vec<String>,
}

impl Finding {
    /// Something that is as it should be.
    pub fn fine(name: &'static str, what: impl Into<String>) -> Self {
        let (what, cost, mend) = (what.into(), String::new(), Vec::new());
        Self { name, is_defect: false, what, cost, source: "", mend }
    }

    /// Something that is wrong: what it costs, where that is from, and the commands that fix it.
    pub fn defect(
        name: &'static str,
        what: impl Into<String>,
        cost: impl Into<String>,
        source: &'static str,
        mend: Vec<String>,
    ) -> Self {
        let (what, cost) = (what.into(), cost.into());
        Self { name, is_defect: true, what, cost, source, mend }
    }
}

/// Everything that was looked at, the defects of one thing beside each other.
///
/// `plan`: of the job that is meant; then interrupts are held against its cores, too.
pub fn findings(inventory: &Inventory, plan: Option<&Plan>) -> Vec<Finding> {
    [
        cores::kernel(inventory),
        cores::nodes(inventory),
        cores::cores(inventory),
        cores::frequency(inventory),
        memory::huge_pages(inventory),
        memory::transparent(inventory),
        memory::limits(inventory),
        memory::moving(inventory),
        interfaces::attached(inventory),
        interfaces::interrupts(inventory, plan),
        interfaces::steering(inventory),
        interfaces::rings(inventory),
    ]
    .concat()
}

/// `core 3`, `cores 3, 4`
fn plural(word: &str, items: &[impl ToString]) -> String {
    let s = if items.len() == 1 { "" } else { "s" };
    let items: Vec<String> = items.iter().map(ToString::to_string).collect();
    format!("{word}{s} {}", items.join(", "))
}

#[cfg(test)]
mod tests;
