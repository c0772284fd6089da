//! Findings about a machine: one line each, and below a defect its cost and its fix.

use std::fmt::Write;

use burstline_topo::Finding;
use serde_json::{Value, json};

/// Returns the text for people.
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

/// Returns the defects that only the plan has, and the number of the others, which are in
/// `of_machine` and are listed by `burstline doctor`.
pub(crate) fn plan_defects_text(defects: &[Finding], of_machine: &[Finding]) -> String {
    // Compare texts only, because the fix may depend on the plan.
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

/// Formats one line each; below a defect its cost and its fix.
fn lines(findings: &[&Finding]) -> String {
    let columns = findings.iter().map(|finding| finding.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for finding in findings {
        let verdict = if finding.is_defect { "defect" } else { "ok" };
        // Writing to a string cannot fail, here and below.
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

/// Returns only the commands that fix defects, one per line.
pub(crate) fn commands(findings: &[Finding]) -> String {
    findings
        .iter()
        .flat_map(|finding| &finding.mend)
        .fold(String::new(), |text, command| text + command + "\n")
}

/// Returns a list of objects; keys are an interface.
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
