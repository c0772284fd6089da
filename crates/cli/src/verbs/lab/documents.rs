//! `burstline lab documents`.

use std::process::ExitCode;

use burstline_lab::documents;

use crate::args::DocumentsArgs;
use crate::confinement::give_up;
use crate::failure::Failure;
use crate::view;

/// Prints the table of claims.
pub(crate) fn documents(args: &DocumentsArgs) -> Result<ExitCode, Failure> {
    give_up()?;
    let all = documents::all();
    let records = args.records.as_deref().map(documents::committed).transpose();
    let records = records.map_err(Failure::new)?;
    let text = match (args.json, args.markdown) {
        (true, _) => format!("{}\n", documents::json(&all)),
        (_, true) => documents::markdown(&all, records.as_deref()),
        _ => documents::text(&all),
    };
    view::say(&text)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use crate::args::Cli;

    /// Splits a command into words like a shell; only single quotes are supported.
    fn words(command: &str) -> Vec<String> {
        let (mut words, mut word, mut is_quoted) = (Vec::new(), String::new(), false);
        for letter in command.chars() {
            match letter {
                '\'' => is_quoted = !is_quoted,
                ' ' if !is_quoted => words.push(std::mem::take(&mut word)),
                _ => {
                    let is_plain = is_quoted || !"&?|;<>()$*\"".contains(letter);
                    assert!(is_plain, "a shell would not take {letter} in {command}");
                    word.push(letter);
                }
            }
        }
        words.push(word);
        words
    }

    #[test]
    fn every_command_of_this_program_is_one_that_it_understands() {
        let mut count = 0;
        for claim in burstline_lab::documents::all().iter().flat_map(|document| &document.claims) {
            if !claim.command.starts_with("burstline ") {
                continue;
            }
            let parsed = Cli::try_parse_from(words(&claim.command));
            assert!(parsed.is_ok(), "{}: {}: {:?}", claim.id, claim.command, parsed.err());
            count += 1;
        }
        assert!(count > 30, "{count}");
        assert!(Cli::try_parse_from(words("burstline lab walk")).is_err());
    }
}
