//! Merges the metrics of several programs into one text.
//!
//! ```text
//!   job a: # TYPE f counter          # TYPE f counter
//!          f_total{x="1"} 5     ──►  f_total{site_job="a",x="1"} 5
//!   job b: # TYPE f counter          f_total{site_job="b"} 7
//!          f_total 7                 # EOF
//! ```
//!
//! OpenMetrics 1.0 allows each family once, with its lines together. All jobs run this program, so
//! a family means the same in all of them.

use std::collections::HashMap;

/// The label with the name of the job. Prometheus uses `job` itself.
pub(crate) const JOB: &str = "site_job";

/// The end marker of a text.
pub(crate) const END: &str = "# EOF\n";

/// The text that a job returned, and the job's name: letters, digits and `-._`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer<'t> {
    pub(crate) job: &'t str,
    pub(crate) text: &'t str,
}

/// A family: its comments, and the lines of all jobs.
#[derive(Default)]
struct Family<'t> {
    comments: Vec<&'t str>,
    lines: Vec<String>,
}

/// Merges `own`, which stays unchanged, with the answers of jobs.
pub(crate) fn joined<'t>(own: &'t str, answers: impl Iterator<Item = Answer<'t>>) -> String {
    let mut families: Vec<Family<'_>> = Vec::new();
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    for Answer { job, text } in answers {
        let mut current = None;
        for line in text.lines().filter(|line| !line.is_empty() && *line != END.trim_end()) {
            let Some(name) = family_of(line) else {
                let family = current.and_then(|number: usize| families.get_mut(number));
                // OpenMetrics has no line before the first family.
                family.into_iter().for_each(|family| family.lines.push(labelled(line, job)));
                continue;
            };
            let number = *numbers.entry(name).or_insert_with(|| {
                families.push(Family::default());
                families.len() - 1
            });
            current = Some(number);
            let family = &mut families[number];
            if family.lines.is_empty() && !family.comments.contains(&line) {
                family.comments.push(line);
            }
        }
    }
    let mut all = own.strip_suffix(END).unwrap_or(own).to_owned();
    for family in families {
        let lines = family.lines.iter().map(String::as_str);
        for line in family.comments.into_iter().chain(lines) {
            all += line;
            all.push('\n');
        }
    }
    all + END
}

/// Returns the family of a comment: `# HELP name ...`, `# TYPE name ...`, `# UNIT name ...`.
fn family_of(line: &str) -> Option<&str> {
    let mut words = line.strip_prefix("# ")?.split(' ');
    words.next().filter(|word| matches!(*word, "HELP" | "TYPE" | "UNIT"))?;
    words.next()
}

/// Adds the job as the first label of a line.
fn labelled(line: &str, job: &str) -> String {
    // A name contains neither character, so the first one ends it.
    let end = line.find(['{', ' ']).unwrap_or(line.len());
    let (name, rest) = line.split_at(end);
    match rest.strip_prefix('{') {
        Some(rest) if rest.starts_with('}') => format!("{name}{{{JOB}=\"{job}\"{rest}"),
        Some(rest) => format!("{name}{{{JOB}=\"{job}\",{rest}"),
        None => format!("{name}{{{JOB}=\"{job}\"}}{rest}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_stands_once_with_the_lines_of_all() {
        let a = "# HELP f Some.\n# TYPE f counter\nf_total{x=\"} 1\"} 5\n# TYPE g gauge\ng{} 1\n\
                 # EOF\n";
        let b = "# TYPE g gauge\ng 2\n# HELP f Some.\n# TYPE f counter\nf_total 7\n# EOF\n";
        let answers = [Answer { job: "a", text: a }, Answer { job: "b", text: b }];
        let text = joined("# TYPE own gauge\nown 1\n# EOF\n", answers.into_iter());
        let expected = "# TYPE own gauge\nown 1\n# HELP f Some.\n# TYPE f counter\n\
                        f_total{site_job=\"a\",x=\"} 1\"} 5\nf_total{site_job=\"b\"} 7\n\
                        # TYPE g gauge\ng{site_job=\"a\"} 1\ng{site_job=\"b\"} 2\n# EOF\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn what_is_no_metrics_changes_nothing() {
        for text in ["", "x 1\n", "# EOF\n", "\n\n", "#\n# HELP\n# TYPE\n"] {
            let text = joined("# EOF\n", [Answer { job: "a", text }].into_iter());
            assert_eq!(text, "# EOF\n");
        }
    }
}
