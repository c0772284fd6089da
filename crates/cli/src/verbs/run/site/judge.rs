//! Checks each job with the command line's parser, the verbs, and the other jobs.

use burstline_port::{Address, striped_paths};
use clap::FromArgMatches;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::super::policy::Missing;
use super::draft::{Draft, Entry};
use super::{Faults, Job};
use crate::args::values::written;
use crate::args::{ANY, Cli, NOTHING, Verb};
use crate::failure::{Failure, usage_text};
use crate::verbs::check_ahead;

/// Resources that two jobs cannot share: the flag, and its description.
const UNSHARED: [(&str, &str); 6] = [
    ("--publish", "the name of a log"),
    ("--inline", "the name of a log"),
    ("--name", "the name of a switch"),
    ("--write", "an output file"),
    ("--metrics", "an address"),
    ("--web", "an address"),
];
/// With these flags a second start of a recorder overwrites no file of the first.
const KEEPS_FILES: [&str; 5] = ["--rotate", "-C", "-G", "--keep", "--resume"];

/// Checks all jobs.
pub(super) fn jobs(drafts: &[Draft], faults: &mut Faults<'_>) -> Vec<Job> {
    shared(drafts, faults);
    never_resumed(drafts, faults);
    let published = published(drafts);
    let judged = drafts.iter().filter_map(|draft| {
        let verb = parsed(draft, faults)?;
        judge(draft, verb, &published, faults)
    });
    let jobs: Vec<Job> = judged.collect();
    circles(drafts, &jobs, faults);
    jobs
}

/// Returns the names of logs that jobs of the file publish.
fn published(drafts: &[Draft]) -> Vec<String> {
    drafts.iter().flat_map(publishes).map(ToOwned::to_owned).collect()
}

/// Returns the names of logs that one job publishes.
fn publishes(draft: &Draft) -> impl Iterator<Item = &str> {
    let is_meant = |entry: &&Entry| ["--publish", "--inline"].contains(&entry.flag.as_str());
    draft.entries.iter().filter(is_meant).flat_map(|entry| &entry.values).map(|value| bare(value))
}

/// Finds jobs that wait for each other's logs, or for their own.
fn circles(drafts: &[Draft], jobs: &[Job], faults: &mut Faults<'_>) {
    let draft_of = |job: &Job| drafts.iter().find(|draft| draft.name == job.name);
    let mut waiting: Vec<&Job> = jobs.iter().collect();
    // Count logs of faulty jobs as present.
    let is_judged = |draft: &&Draft| jobs.iter().any(|job| job.name == draft.name);
    let faulty = drafts.iter().filter(|draft| !is_judged(draft));
    let mut there: Vec<&str> = faulty.flat_map(publishes).collect();
    loop {
        let before = waiting.len();
        waiting.retain(|job| {
            let starts = job.siblings.iter().all(|log| there.contains(&log.as_str()));
            if starts {
                there.extend(draft_of(job).into_iter().flat_map(publishes));
            }
            !starts
        });
        if waiting.len() == before {
            break;
        }
    }
    for job in waiting {
        let log = job.siblings.iter().find(|log| !there.contains(&log.as_str()));
        if let (Some(draft), Some(log)) = (draft_of(job), log) {
            let what = "whose job waits for this job: neither would start";
            faults.add(&draft.at, format!("job {}: waits for log {log}, {what}", job.name));
        }
    }
}

/// Returns a name without its options.
fn bare(value: &str) -> &str {
    value.split('?').next().unwrap_or(value)
}

/// Finds resources that two jobs claim but cannot share.
fn shared(drafts: &[Draft], faults: &mut Faults<'_>) {
    struct Taken<'a> {
        claim: String,
        job: &'a str,
    }
    let mut seen: Vec<Taken<'_>> = Vec::new();
    for draft in drafts {
        for entry in &draft.entries {
            for (claim, value) in claims(entry) {
                match seen.iter().find(|taken| taken.claim == claim) {
                    // A job's metrics and page may share an address.
                    Some(taken) if taken.job == draft.name => {}
                    Some(Taken { job: other, .. }) => {
                        let name = &draft.name;
                        let key = entry.flag.trim_start_matches('-');
                        let what = format!("job {name}: {key}: job {other} has '{value}' already");
                        faults.add(&entry.at, what);
                    }
                    None => seen.push(Taken { claim, job: &draft.name }),
                }
            }
        }
    }
}

/// Returns a key's claims: its description with the value in canonical form, and the value.
fn claims(entry: &Entry) -> impl Iterator<Item = (String, &str)> {
    let unshared = UNSHARED.iter().find(|(flag, _)| *flag == entry.flag);
    let values = entry.values.iter().map(|value| bare(value));
    // The kernel picks a free port for 0.
    let values = values.filter(|value| !value.ends_with(":0"));
    unshared.into_iter().flat_map(move |(flag, what)| {
        values.clone().filter_map(move |value| {
            let form = in_one_form(flag, value)?;
            Some((format!("{what} {form}"), value))
        })
    })
}

/// Returns a canonical value: a path as absolute and without `.`, an address with its host.
/// `None`: nothing is claimed.
fn in_one_form(flag: &str, value: &str) -> Option<String> {
    match flag {
        "--write" => {
            let path = kept_at(value)?;
            let absolute = std::path::absolute(&path).map(|path| path.display().to_string());
            Some(absolute.unwrap_or(path))
        }
        "--metrics" | "--web" if value.bytes().all(|byte| byte.is_ascii_digit()) => {
            Some(format!("127.0.0.1:{value}"))
        }
        _ => Some(value.to_owned()),
    }
}

/// Returns the path at which `--write` keeps packets, if it keeps any.
fn kept_at(value: &str) -> Option<String> {
    written(value).ok().filter(|path| ![NOTHING, "/dev/null"].contains(&path.as_str()))
}

/// Returns whether a recorder would overwrite the file of its previous start.
fn overwrites(draft: &Draft) -> bool {
    let has = |flag: &str| draft.entries.iter().any(|entry| entry.flag == flag);
    let mut outputs = draft.entries.iter().filter(|entry| entry.flag == "--write");
    let is_file = |path: &String| std::fs::metadata(path).map_or(true, |found| found.is_file());
    let is_regular = |path: String| {
        let paths = striped_paths(&path).unwrap_or_default();
        !paths.is_empty() && paths.iter().all(is_file)
    };
    let is_kept = |value: &String| kept_at(value).is_some_and(is_regular);
    let is_file = outputs.next().is_some_and(|entry| entry.values.iter().all(is_kept));
    draft.verb == "capture" && is_file && !KEEPS_FILES.iter().any(|flag| has(flag))
}

/// Finds recorders whose next start overwrites the files of the one before, because `--resume`
/// refuses them: files of several link types that take turns.
fn never_resumed(drafts: &[Draft], faults: &mut Faults<'_>) {
    let is_split = |entry: &&Entry| entry.flag == "--link-types" && entry.values == ["split"];
    for draft in drafts.iter().filter(|draft| overwrites(draft)) {
        let outputs = draft.entries.iter().filter(|entry| entry.flag == "--write");
        let mut values = outputs.flat_map(|entry| &entry.values);
        let take_turns = |path: String| striped_paths(&path).is_ok_and(|paths| paths.len() > 1);
        let is_striped = values.any(|value| kept_at(value).is_some_and(take_turns));
        if let Some(entry) = draft.entries.iter().find(is_split).filter(|_| is_striped) {
            let what = "striped files with link-types=split begin again at each start: name one \
                        file, or add rotate";
            faults.add(&entry.at, format!("job {}: {what}", draft.name));
        }
    }
}

/// Parses a job's arguments as a command line, and reports every fault.
fn parsed(draft: &Draft, faults: &mut Faults<'_>) -> Option<Verb> {
    let mut left: Vec<&Entry> = draft.entries.iter().collect();
    let mut is_faulty = draft.is_faulty;
    loop {
        let words = words(draft, &left);
        let named = ["burstline".to_owned()].into_iter().chain(words);
        let matches = Cli::whole().try_get_matches_from(named);
        let error = match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
            Ok(cli) => return (!is_faulty).then_some(cli.verb),
            Err(error) => error,
        };
        let guilty = guilty(&error, &left);
        let place = guilty.map_or(&draft.at, |index| &left[index].at);
        // Errors after a rejected key may only be its consequence.
        let is_news = guilty.is_some() || !is_faulty;
        if is_news {
            faults.add(place, format!("job {}: {}", draft.name, usage_text(&error)));
        }
        is_faulty = true;
        left.remove(guilty?);
    }
}

fn words(draft: &Draft, entries: &[&Entry]) -> Vec<String> {
    let (flags, ports): (Vec<&Entry>, Vec<&Entry>) =
        entries.iter().partition(|entry| !entry.flag.is_empty());
    let mut words = vec![draft.verb.clone()];
    words.extend(flags.into_iter().flat_map(Entry::words));
    if !ports.is_empty() {
        words.push("--".to_owned());
        words.extend(ports.into_iter().flat_map(Entry::words));
    }
    words
}

/// Returns the key that an error is about.
fn guilty(error: &clap::Error, entries: &[&Entry]) -> Option<usize> {
    if error.kind() == ErrorKind::MissingRequiredArgument {
        return None;
    }
    let named = match error.get(ContextKind::InvalidArg)? {
        ContextValue::String(name) => name.clone(),
        ContextValue::Strings(names) => names.first()?.clone(),
        _ => return None,
    };
    let flag = named.split([' ', '=', '[']).next().unwrap_or_default();
    let flag = if flag.starts_with('-') { flag } else { "" };
    entries.iter().position(|entry| entry.flag == flag)
}

/// Returns the interfaces of `-i`, which are known even if they do not exist now.
fn named_interfaces(draft: &Draft) -> Vec<Address> {
    let entries = draft.entries.iter().filter(|entry| entry.flag == "--interface");
    let names = entries.flat_map(|entry| &entry.values).filter(|name| name.as_str() != ANY);
    names.filter_map(|name| name.parse::<Address>().ok()).map(|port| port.as_interface()).collect()
}

/// Checks what else can be known about a job before it starts.
fn judge(
    draft: &Draft,
    mut verb: Verb,
    published: &[String],
    faults: &mut Faults<'_>,
) -> Option<Job> {
    let before = faults.found.len();
    let name = &draft.name;
    let at_ports = draft.entries.iter().find(|entry| entry.flag.is_empty());
    let at_ports = at_ports.map_or(&draft.at, |entry| &entry.at);
    for entry in &draft.entries {
        if entry.values.iter().any(|value| value.contains('\0')) {
            faults.add(&entry.at, format!("job {name}: a value contains a NUL byte"));
        }
        if entry.values.iter().any(|value| value == "-" || value == "file:-") {
            let what = "'-' is standard input or output, which a service's job does not have; name \
                        a file or a FIFO";
            faults.add(&entry.at, format!("job {name}: {what}"));
        }
    }
    let waits = draft.policy.missing == Missing::Wait;
    // What the machine lacks now may appear later.
    let may_come = |failure: &Failure| waits && !failure.is_usage();
    let mut needs = named_interfaces(draft);
    match verb.settle() {
        Ok(()) => needs = verb.needed_ports().into_iter().cloned().collect(),
        Err(failure) if may_come(&failure) => {}
        Err(failure) => faults.add(at_ports, format!("job {name}: {failure}")),
    }
    let is_settled = faults.found.len() == before;
    if let Some(Err(failure)) = is_settled.then(|| check_ahead(&verb)).filter(Result::is_err) {
        let of_files = |entry: &&Entry| ["--write", "--config"].contains(&entry.flag.as_str());
        let place = draft.entries.iter().find(of_files).map_or(&draft.at, |entry| &entry.at);
        if !may_come(&failure) {
            faults.add(place, format!("job {name}: {failure}"));
        }
    }
    let siblings: Vec<String> = needs
        .iter()
        .filter_map(|port| port.log_name())
        .filter(|log| published.iter().any(|name| name == log))
        .map(ToOwned::to_owned)
        .collect();
    // Fails for addresses with an unknown scheme.
    for error in needs.iter().filter_map(|port| port.inward().err()) {
        faults.add(at_ports, format!("job {name}: {error}"));
    }
    for port in needs.iter().filter(|_| !waits) {
        let is_sibling = port.log_name().is_some_and(|log| published.iter().any(|n| n == log));
        if let Some(what) = port.absent().filter(|_| !is_sibling) {
            let remedy = "missing-port = \"wait\" starts the job when it is there";
            faults.add(at_ports, format!("job {name}: there is no {what}; {remedy}"));
        }
    }
    (faults.found.len() == before).then(|| Job {
        name: name.clone(),
        words: words(draft, &draft.entries.iter().collect::<Vec<_>>()),
        policy: draft.policy,
        needs,
        siblings,
        claims: draft.entries.iter().flat_map(claims).map(|(claim, _)| claim).collect(),
        overwrites: overwrites(draft),
    })
}
