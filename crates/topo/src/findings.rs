//! Finds defects that make a machine lose packets. Each has its cost, the source of that figure,
//! and the commands that fix it.
//!
//! A cost is a figure only if it was measured, and the finding names the source. Otherwise it says
//! what happens. Costs that follow from the machine's own numbers are computed. No setting is
//! changed.

mod cores;
mod dpdk;
mod interfaces;
mod memory;

use crate::inventory::Inventory;
use crate::plan::Plan;
pub use cores::{FAR_SOURCE, KERNEL_NEEDS, KernelNeed};
pub use dpdk::{Dpdk, DpdkDriver, dpdk_findings};

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The checked item: `huge pages`, `steering`.
    pub name: &'static str,
    /// Whether it is a defect.
    pub is_defect: bool,
    /// The current state, with the numbers.
    pub what: String,
    /// The cost of a defect; empty if there is none.
    pub cost: String,
    /// The source of the cost; empty if there is none.
    pub source: &'static str,
    /// Commands for a root shell that fix a defect; empty if no command does.
    pub mend: Vec<String>,
}

impl Finding {
    /// Creates a finding without a defect.
    pub fn fine(name: &'static str, what: impl Into<String>) -> Self {
        let (what, cost, mend) = (what.into(), String::new(), Vec::new());
        Self { name, is_defect: false, what, cost, source: "", mend }
    }

    /// Creates a defect with its cost, the source of the cost, and the commands that fix it.
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

/// Returns all findings, with the defects of one item next to each other.
///
/// With the `plan` of a job, interrupts are also checked against its cores.
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

/// Formats like `core 3`, `cores 3, 4`.
fn plural(word: &str, items: &[impl ToString]) -> String {
    let s = if items.len() == 1 { "" } else { "s" };
    let items: Vec<String> = items.iter().map(ToString::to_string).collect();
    format!("{word}{s} {}", items.join(", "))
}

#[cfg(test)]
mod tests;
