//! `burstline man`: manual pages generated from the definitions of the flags.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::ExitCode;

use burstline_sys::inode::replace;
use clap::Command;
use clap_mangen::Man;

use crate::args::Cli;
use crate::failure::Failure;
use crate::view;

/// Prints the page of a verb, or of the whole program, or writes every page into the folder `into`.
pub(crate) fn man(verb: &[String], into: Option<&Path>) -> Result<ExitCode, Failure> {
    let mut program = Cli::whole().disable_help_subcommand(true);
    program.build();
    match into {
        Some(folder) => write_all(&program, folder)?,
        None if verb.is_empty() => view::print(&whole(&program)?)?,
        None => view::print(&page(&program, &verb.join(" "))?)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the page of the program: its own sections, then one for each verb.
fn whole(program: &Command) -> Result<String, Failure> {
    let mut text = head(program, "burstline")?;
    for (name, verb) in verbs(program) {
        // A verb is a section, so its own sections move one level down.
        let sections = sections(verb)?.replace(".SH ", ".SS ");
        text += &format!(".SH {}\n{sections}", name.to_uppercase());
    }
    Ok(text)
}

/// Returns the page of a verb, given its full name.
fn page(program: &Command, name: &str) -> Result<String, Failure> {
    let all = verbs(program);
    let Some((_, verb)) = all.iter().find(|(known, _)| known == name) else {
        let known: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
        let near = burstline_port::did_you_mean(name, known.iter().copied());
        let there_are = known.join(", ");
        return Err(Failure::usage(format!("no verb '{name}'{near}; there are: {there_are}")));
    };
    one(verb, name)
}

/// Returns the page of one verb.
fn one(verb: &Command, name: &str) -> Result<String, Failure> {
    let title = format!("burstline-{}", name.replace(' ', "-"));
    Ok(title_and_name(verb, &title)? + &sections(verb)? + SEE_ALSO)
}

/// The reference at the end of a page.
const SEE_ALSO: &str =
    ".SH \"SEE ALSO\"\nburstline(1): ports and their keys, signals, exit codes\n";

/// Writes `burstline.1` and a page for each verb.
fn write_all(program: &Command, folder: &Path) -> Result<(), Failure> {
    let failed = |path: &Path, error| Failure::new(format!("write {}: {error}", path.display()));
    fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    let mut pages = vec![("burstline".to_owned(), whole(program)?)];
    for (name, verb) in verbs(program) {
        pages.push((format!("burstline-{}", name.replace(' ', "-")), one(verb, &name)?));
    }
    for (title, text) in pages {
        let path = folder.join(title + ".1");
        write_page(&path, &text).map_err(|error| failed(&path, error))?;
    }
    Ok(())
}

/// Writes a page, which all users may read.
fn write_page(path: &Path, text: &str) -> io::Result<()> {
    replace(path, text.as_bytes())?;
    fs::set_permissions(path, Permissions::from_mode(0o644))
}

/// Returns each verb with its full name; a verb with subcommands is followed by them.
fn verbs(command: &Command) -> Vec<(String, &Command)> {
    let mut all = Vec::new();
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        all.push((verb.get_name().to_owned(), verb));
        let inner = verbs(verb).into_iter();
        all.extend(inner.map(|(name, inner)| (format!("{} {name}", verb.get_name()), inner)));
    }
    all
}

/// Returns the sections before a page's flags.
fn head(command: &Command, title: &str) -> Result<String, Failure> {
    let man = Man::new(command.clone());
    let mut text = Vec::new();
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    Ok(title_and_name(command, title)? + &text_of(text) + &examples(&man)?)
}

fn title_and_name(command: &Command, title: &str) -> Result<String, Failure> {
    let version = concat!("burstline ", env!("CARGO_PKG_VERSION"));
    let man = Man::new(command.clone()).title(title).source(version);
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let name = title.replace('-', "\\-");
    Ok(format!("{}.SH NAME\n{name} \\- {about}\n", text_of(text)))
}

/// Returns a verb's description, flags and examples.
fn sections(verb: &Command) -> Result<String, Failure> {
    let man = Man::new(verb.clone());
    let mut text = Vec::new();
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    man.render_options_section(&mut text)?;
    Ok(text_of(text) + &examples(&man)?)
}

/// Returns the help text after the flags, with its line breaks.
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
