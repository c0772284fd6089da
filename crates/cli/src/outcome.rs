//! The outcome of a job: decides the exit code and writes the last line of the report.

use std::process::ExitCode;

use burstline_engine::{FlowsReport, Report};
use burstline_flow::{LostRecords, SinkAccount};
use burstline_port::Loss;
use serde_json::{Value, json};

use crate::failure::{FAILED, complain, complain_of_ledger};
use crate::words::{count_text, counted_text, packets_text};

/// What a job must achieve besides running and accounting for every packet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Demands {
    /// The flag that makes any loss a failure, if one was given.
    pub(crate) lossless_by: Option<&'static str>,
    /// The number of packets that must be delivered.
    pub(crate) expected: Option<u64>,
    /// Whether verification found packets that differ from those sent.
    pub(crate) is_refuted: bool,
}

/// Why a job failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// A part of the job ended early; the error has its own line.
    Error,
    /// Some input was damaged; a note says where.
    Damaged,
    /// The ledger does not close.
    Unaccounted(i64),
    /// Packets were lost, and none was delivered.
    AllLost,
    /// Flow records were made, but no sink has any of them.
    AllRecordsLost,
    /// Packets were lost although this flag allows no loss.
    Loss(&'static str),
    /// The number of delivered packets is not the expected one.
    NotExpected { delivered: u64, expected: u64 },
    /// Packets differ from those sent.
    NotVerified,
}

impl Fault {
    /// Returns the name in `--json`.
    fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Damaged => "damaged",
            Self::Unaccounted(_) => "unaccounted",
            Self::AllLost => "all_lost",
            Self::AllRecordsLost => "all_records_lost",
            Self::Loss(_) => "loss",
            Self::NotExpected { .. } => "not_expected",
            Self::NotVerified => "not_verified",
        }
    }
}

/// How a job ended.
#[derive(Debug)]
pub(crate) struct Outcome {
    faults: Vec<Fault>,
    unaccounted: i64,
    /// Packets that should have been delivered: offered minus the packets that the user excluded.
    wanted: u64,
    /// Lost packets by cause; each count is at least 1.
    causes: Vec<(Loss, u64)>,
    /// Flow records lost, by name.
    records: Vec<LostRecords>,
}

impl Outcome {
    /// Judges a job by its report.
    pub(crate) fn of(report: &Report, demands: &Demands) -> Self {
        let total = &report.total;
        let lost = total.lost.missing();
        let is_all = lost > 0 && total.delivered == 0;
        let delivered = total.delivered;
        let unexpected = demands.expected.filter(|&expected| expected != delivered);
        let faults = [
            (!report.errors.is_empty()).then_some(Fault::Error),
            report.is_damaged.then_some(Fault::Damaged),
            (total.unaccounted != 0).then_some(Fault::Unaccounted(total.unaccounted)),
            is_all.then_some(Fault::AllLost),
            report.flows.as_ref().is_some_and(has_no_record).then_some(Fault::AllRecordsLost),
            demands.lossless_by.filter(|_| lost > 0).map(Fault::Loss),
            unexpected.map(|expected| Fault::NotExpected { delivered, expected }),
            demands.is_refuted.then_some(Fault::NotVerified),
        ];
        let is_lost = |&(cause, packets): &(Loss, u64)| packets > 0 && !cause.is_choice();
        Self {
            faults: faults.into_iter().flatten().collect(),
            unaccounted: total.unaccounted,
            wanted: total.offered.saturating_sub(total.lost.unwanted()),
            causes: total.lost.iter().filter(is_lost).collect(),
            records: report.flows.as_ref().map_or_else(Vec::new, FlowsReport::lost_by_name),
        }
    }

    /// Returns whether the job did what was asked.
    pub(crate) fn is_success(&self) -> bool {
        self.faults.is_empty()
    }

    /// Returns the exit code of the program.
    pub(crate) fn exit_code(&self) -> ExitCode {
        if self.is_success() { ExitCode::SUCCESS } else { ExitCode::from(FAILED) }
    }

    /// Prints one line on standard error for each fault. Errors and damage were already reported.
    pub(crate) fn complain(&self) {
        for fault in &self.faults {
            match *fault {
                Fault::Error | Fault::Damaged => {}
                // The error, or the line above, explains it.
                Fault::AllRecordsLost if self.faults.contains(&Fault::Error) => {}
                Fault::AllLost if self.faults.contains(&Fault::Error) => {}
                Fault::Loss(_) if self.faults.contains(&Fault::AllLost) => {}
                Fault::Unaccounted(packets) => complain_of_ledger(packets),
                Fault::AllLost => complain(&format!(
                    "{} of {} lost, none delivered: {}",
                    count_text(self.lost()),
                    packets_text(self.wanted),
                    self.causes_text()
                )),
                Fault::AllRecordsLost => {
                    complain(&format!("every sink lost all its records: {}", self.records_text()))
                }
                Fault::Loss(flag) => {
                    complain(&format!("{} lost under {flag}", packets_text(self.lost())))
                }
                Fault::NotExpected { delivered, expected } => {
                    let delivered = packets_text(delivered);
                    complain(&format!("{delivered} delivered, {expected} expected"));
                }
                Fault::NotVerified => {
                    complain("--verify: packets were lost, duplicated, reordered or changed");
                }
            }
        }
    }

    /// Returns the last line of a report.
    pub(crate) fn text(&self, command: &str) -> String {
        let verdict = match self.is_success() {
            true => "done".to_owned(),
            false => format!("{command} failed"),
        };
        let unaccounted = self.unaccounted;
        let lost = match self.lost() {
            0 => "no packets lost".to_owned(),
            lost => {
                let (lost, wanted) = (count_text(lost), packets_text(self.wanted));
                format!("{lost} of {wanted} lost ({})", self.causes_text())
            }
        };
        let records = match self.records.is_empty() {
            true => String::new(),
            false => format!(", {}", self.records_text()),
        };
        format!("{verdict}: {lost}{records}, {unaccounted} unaccounted")
    }

    /// `18 flow records lost (collector_absent)`
    fn records_text(&self) -> String {
        let lost = self.records.iter().map(|lost| lost.records).sum();
        let mut names: Vec<_> = self.records.iter().map(|lost| lost.name).collect();
        names.dedup();
        format!("{} lost ({})", counted_text(lost, "flow record"), names.join(", "))
    }

    /// Returns the outcome for `--json`.
    pub(crate) fn json(&self) -> Value {
        let causes = self.causes.iter();
        let causes = causes.map(|(cause, packets)| (cause.name().to_owned(), (*packets).into()));
        json!({
            "success": self.is_success(),
            "faults": self.faults.iter().map(|fault| fault.name()).collect::<Vec<_>>(),
            "lost": self.lost(),
            "of": self.wanted,
            "causes": Value::Object(causes.collect()),
        })
    }

    fn lost(&self) -> u64 {
        self.causes.iter().map(|(_, packets)| packets).sum()
    }

    /// Returns the causes, with their counts if there are several.
    fn causes_text(&self) -> String {
        match &self.causes[..] {
            [(cause, _)] => cause.to_string(),
            causes => {
                let each = causes.iter();
                let each = each.map(|(cause, packets)| format!("{cause} {}", count_text(*packets)));
                each.collect::<Vec<_>>().join(", ")
            }
        }
    }
}

/// Returns whether records were made for sinks, but no sink has written, sent or spooled any.
fn has_no_record(flows: &FlowsReport) -> bool {
    let is_empty = |sink: &SinkAccount| sink.records + sink.spooled.records == 0;
    let made = flows.counts.records > 0 && !flows.sinks.is_empty();
    made && flows.sinks.iter().all(is_empty)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(offered: u64, delivered: u64, lost: &[(Loss, u64)]) -> Report {
        let mut report = Report::default();
        (report.total.offered, report.total.delivered) = (offered, delivered);
        lost.iter().for_each(|&(cause, packets)| report.total.lost.add(cause, packets));
        report
    }

    #[test]
    fn the_last_line_names_each_loss_of_what_was_wanted() {
        let lost = [(Loss::Filtered, 1000), (Loss::RxRingFull, 1234), (Loss::TooLong, 6)];
        let outcome = Outcome::of(&report(3000, 760, &lost), &Demands::default());
        assert_eq!(
            outcome.text("count"),
            "done: 1,240 of 2,000 packets lost (rx_ring_full 1,234, too_long 6), 0 unaccounted"
        );
        let outcome = Outcome::of(&report(2240, 0, &lost), &Demands::default());
        assert_eq!(outcome.faults, [Fault::AllLost]);
        let flag = Demands { lossless_by: Some("--lossless"), ..Demands::default() };
        assert_eq!(
            Outcome::of(&report(3000, 760, &lost), &flag).faults,
            [Fault::Loss("--lossless")]
        );
    }

    #[test]
    fn nothing_delivered_of_nothing_is_no_failure() {
        for lost in [&[][..], &[(Loss::Filtered, 5)], &[(Loss::RxRingFull, 0), (Loss::Expired, 5)]]
        {
            let outcome = Outcome::of(&report(5, 0, lost), &Demands::default());
            assert!(outcome.is_success(), "{lost:?}");
            assert_eq!(outcome.text("count"), "done: no packets lost, 0 unaccounted");
        }
    }
}
