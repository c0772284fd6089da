//! What was looked at on a machine: a line each, and under a defect its cost and its mend.

use std::fmt::Write;

use burstline_topo::Finding;
use serde_json::{Value, json};

/// As text for people.
pub(crate) fn findings_text(findings: &[Finding]) -> String {
    let mut text = lines(&findings.iter().collect::<Vec<_>>());
    let defects = findings.iter().filter(|finding| finding.is_defect).count();
    let _ = match defects {
        0 => writeln!(text, "\nno defect"),
        1 => writeln!(text, "\n1 defect; its command alone: --fix-commands"),
        _ => writeln!(text, "\n{defects} defects; their commands alone: --fix-commands"),
    };
    text
}

/// The defects of a plan: those that are none without it, and how many others there are, which
/// are in `of_machine` and `burstline doctor` tells.
pub(crate) fn plan_defects_text(defects: &[Finding], of_machine: &[Finding]) -> String {
    // By what they say: what mends one may look at the plan, too.
    let is_told = |defect: &&Finding| of_machine.iter().any(|other| other.what == defect.what);
    let (told, own): (Vec<&Finding>, Vec<_>) = defects.iter().partition(is_told);
    let mut text = if own.is_empty() { String::new() } else { format!("\n{}", lines(&own)) };
    let _ = match told.len() {
        0 => Ok(()),
        1 => writeln!(text, "\n1 defect of this machine: burstline doctor"),
        defects => writeln!(text, "\n{defects} defects of this machine: burstline doctor"),
    };
    text
}

/// A line each; under a defect its cost and its mend.
fn lines(findings: &[&Finding]) -> String {
    let columns = findings.iter().map(|finding| finding.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for finding in findings {
        let verdict = if finding.is_defect { "defect" } else { "ok" };
        // Writing to a string does not fail, here and below.
        let _ = writeln!(text, "{:<columns$}  {verdict:<6}  {}", finding.name, finding.what);
        let indent = " ".repeat(columns + 10);
        if finding.is_defect {
            let _ = writeln!(text, "{indent}cost: {} [{}]", finding.cost, finding.source);
        }
        for command in &finding.mend {
            let _ = writeln!(text, "{indent}fix: {command}");
        }
    }
    text
}

/// Only what mends them, a command a line.
pub(crate) fn commands(findings: &[Finding]) -> String {
    findings
        .iter()
        .flat_map(|finding| &finding.mend)
        .fold(String::new(), |text, command| text + command + "\n")
}

/// As a list of objects: keys are an interface.
pub(crate) fn findings_json(findings: &[Finding]) -> Value {
    let finding = |finding: &Finding| {
        json!({
            "name": finding.name,
            "is_defect": finding.is_defect,
            "what": finding.what,
            "cost": (!finding.cost.is_empty()).then_some(&finding.cost),
            "cost_source": (!finding.source.is_empty()).then_some(finding.source),
            "mend": finding.mend,
        })
    };
    findings.iter().map(finding).collect()
}
