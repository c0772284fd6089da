//! Accounts of the CPU time: the kernel's, by samples, and the contenders' own.
//!
//! Each account covers all of the time. So stages are added within one account, never across two.

use crate::record::Record;

use super::select;

/// Stages of the kernel's account of a core.
const KERNEL_STAGES: [&str; 3] = ["user", "system", "interrupts"];

/// Prefix of stages in the contender's own account.
const OWN: &str = "own ";

/// One account.
#[derive(Debug)]
pub(super) struct Account<'a> {
    /// A word for file names.
    pub(super) suffix: &'static str,
    /// The caption.
    pub(super) caption: &'static str,
    /// Its stages, at least one, in order of appearance.
    pub(super) names: Vec<&'a str>,
}

/// Returns the accounts of a record.
pub(super) fn of(record: &Record) -> Vec<Account<'_>> {
    let all = record.rows.iter().flat_map(|row| row.stages.iter().map(|s| s.name.as_str()));
    let all = select::distinct(all);
    let (kernel, rest): (Vec<&str>, Vec<&str>) =
        all.into_iter().partition(|name| KERNEL_STAGES.contains(name));
    let (own, sampled): (Vec<&str>, Vec<&str>) =
        rest.into_iter().partition(|name| name.starts_with(OWN));
    let account = |suffix, caption, names| Account { suffix, caption, names };
    let mut accounts = vec![
        account("kernel", "rho by the kernel's account", kernel),
        account("stages", "rho by samples of what ran", sampled),
        account("own", "rho by contenders' own account", own),
    ];
    accounts.retain(|account| !account.names.is_empty());
    if let [only] = &mut accounts[..] {
        only.caption = "rho by stage";
    }
    accounts
}
