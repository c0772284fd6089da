//! What the program can do: one file for each verb that is more than a few lines.

mod archive;
mod balance;
mod bounce;
mod capture;
mod count;
mod demo;
mod doctor;
mod flight;
mod generate;
mod lab;
mod merge;
mod ports;
mod replay;
mod switch;

use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;
use clap_mangen::Man;

use crate::args::Cli;
use crate::failure::Failure;
use crate::view;

pub(crate) use archive::{check, extract, index, info, recover};
pub(crate) use balance::balance;
pub(crate) use bounce::bounce;
pub(crate) use capture::capture;
pub(crate) use count::count;
pub(crate) use demo::demo;
pub(crate) use doctor::doctor;
pub(crate) use generate::generate;
pub(crate) use lab::lab;
pub(crate) use merge::merge;
pub(crate) use ports::ports;
pub(crate) use replay::replay;
pub(crate) use switch::switch;

/// Prints a completion script.
pub(crate) fn completions(shell: Shell) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "burstline", &mut script);
    view::print(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the manual page: the program's sections, then one for each verb.
pub(crate) fn man() -> Result<ExitCode, Failure> {
    let mut command = Cli::command();
    command.build();
    let man = Man::new(command.clone());
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    let mut text = text_of(page) + &examples(&man)?;
    for (name, verb) in verbs(&command) {
        let man = Man::new(verb.clone());
        let mut sections = Vec::new();
        man.render_synopsis_section(&mut sections)?;
        man.render_description_section(&mut sections)?;
        man.render_options_section(&mut sections)?;
        let sections = text_of(sections) + &examples(&man)?;
        // A verb is a section, so its own sections go one level down.
        let sections = sections.replace(".SH ", ".SS ");
        text += &format!(".SH {}\n{sections}", name.to_uppercase());
    }
    view::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Each verb by its whole name: one that has verbs of its own is followed by them.
fn verbs(command: &clap::Command) -> Vec<(String, &clap::Command)> {
    let mut all = Vec::new();
    for verb in command.get_subcommands().filter(|verb| verb.get_name() != "help") {
        all.push((verb.get_name().to_owned(), verb));
        let inner = verbs(verb).into_iter();
        all.extend(inner.map(|(name, inner)| (format!("{} {name}", verb.get_name()), inner)));
    }
    all
}

/// What stands behind the flags in the help text, with its line breaks.
fn examples(man: &Man) -> Result<String, Failure> {
    let mut section = Vec::new();
    man.render_extra_section(&mut section)?;
    let text = text_of(section);
    Ok(match text.split_once(".SH EXTRA\n") {
        Some((_, lines)) => format!(".SH EXAMPLES\n.nf\n{lines}.fi\n"),
        None => String::new(),
    })
}

fn text_of(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The address of a file, whatever characters are in its path.
pub(crate) fn file_address(path: &str) -> String {
    let mut address = String::from("file:");
    for character in path.chars() {
        match character {
            '%' => address += "%25",
            '?' => address += "%3F",
            _ => address.push(character),
        }
    }
    address
}
