//! Accounts of where the time went: the kernel's, by samples of what ran, and contenders' own.
//!
//! Each is of all of the time, so stages of one are added up, and those of two never.

use crate::record::Record;

use super::select;

/// Stages that are the kernel's account of a core.
const KERNEL_STAGES: [&str; 3] = ["user", "system", "interrupts"];

/// What names of stages begin with that are the contender's own account.
const OWN: &str = "own ";

/// One account.
#[derive(Debug)]
pub(super) struct Account<'a> {
    /// A word for names of files.
    pub(super) suffix: &'static str,
    /// What stands above it.
    pub(super) caption: &'static str,
    /// Its stages, at least one, in the order in which they are met.
    pub(super) names: Vec<&'a str>,
}

/// Those that the record has.
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
