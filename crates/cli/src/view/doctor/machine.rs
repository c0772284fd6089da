//! What was looked at on a machine: a line each, and under a defect its cost and its mend.

use std::fmt::Write;

use burstline_topo::Finding;
use serde_json::{Value, json};

/// As text for people.
pub(crate) fn findings_text(findings: &[Finding]) -> String {
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
            let _ = writeln!(text, "{indent}mend: {command}");
        }
    }
    let defects = findings.iter().filter(|finding| finding.is_defect).count();
    let _ = match defects {
        0 => writeln!(text, "\nno defect"),
        1 => writeln!(text, "\n1 defect; its command alone: --fix-commands"),
        _ => writeln!(text, "\n{defects} defects; their commands alone: --fix-commands"),
    };
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
