//! The keys of a job in a site file: the flags of its verb, from clap, and a few of the service.

use clap::{Arg, ArgAction, Command};

use crate::args::{LIST, SUPERVISED};

/// The service's own keys.
pub(crate) const OWN: [&str; 7] =
    ["verb", PORTS, "restart", "restart-delay", "restart-limit", "missing-port", "stop-timeout"];

/// The key for positional arguments.
pub(super) const PORTS: &str = "ports";

/// Flags that make no sense in a file, or that the service sets.
const WITHOUT: [&str; 4] = ["help", "help-all", "json", LIST];

/// Returns the verbs that are jobs.
pub(super) fn verbs(program: &Command) -> Vec<&str> {
    let is_job = |verb: &&Command| verb.get_arguments().any(|arg| arg.get_id() == SUPERVISED);
    program.get_subcommands().filter(is_job).map(Command::get_name).collect()
}

/// The values that a key takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Takes {
    /// Only `true` or `false`.
    Nothing,
    /// One value, or `true` if the value is optional.
    One { is_optional: bool },
    /// One value, or a list.
    Several,
}

/// A flag as a key.
#[derive(Clone, Debug)]
pub(super) struct Key {
    /// The flag as typed on a command line: `--filter`, `-C`.
    pub(super) flag: String,
    pub(super) takes: Takes,
}

/// Returns the key with this name.
pub(super) fn find(verb: &Command, name: &str) -> Option<Key> {
    if name == PORTS {
        let has_ports = verb.get_positionals().next().is_some();
        return has_ports.then(|| Key { flag: String::new(), takes: Takes::Several });
    }
    let arg = flags(verb).find(|arg| names(arg).iter().any(|known| known == name))?;
    let flag = match (arg.get_long(), arg.get_short()) {
        (Some(long), _) => format!("--{long}"),
        (None, short) => format!("-{}", short.unwrap_or_default()),
    };
    Some(Key { flag, takes: takes(arg) })
}

/// Returns the names of all keys, for an error about an unknown one.
pub(super) fn all(verb: &Command) -> Vec<String> {
    let own = OWN.iter().map(|&name| name.to_owned());
    flags(verb).flat_map(names).chain(own).collect()
}

fn flags(verb: &Command) -> impl Iterator<Item = &Arg> {
    let is_meant = |arg: &&Arg| {
        !arg.is_positional() && !arg.is_hide_set() && !WITHOUT.contains(&arg.get_id().as_str())
    };
    verb.get_arguments().filter(is_meant)
}

/// Returns the long names of a flag, or its letter if it has none.
fn names(arg: &Arg) -> Vec<String> {
    let long = arg.get_long().into_iter().chain(arg.get_visible_aliases().unwrap_or_default());
    let long: Vec<String> = long.map(ToOwned::to_owned).collect();
    if long.is_empty() { arg.get_short().map(String::from).into_iter().collect() } else { long }
}

fn takes(arg: &Arg) -> Takes {
    match arg.get_action() {
        ArgAction::SetTrue | ArgAction::SetFalse | ArgAction::Count => Takes::Nothing,
        ArgAction::Append => Takes::Several,
        _ => {
            let least = arg.get_num_args().map_or(1, |range| range.min_values());
            Takes::One { is_optional: least == 0 }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;

    #[test]
    fn no_flag_has_the_name_of_a_key_of_the_service() {
        let mut program = Cli::whole();
        program.build();
        let jobs = verbs(&program);
        for job in ["capture", "count", "merge", "balance", "switch", "bounce", "generate"] {
            assert!(jobs.contains(&job), "{jobs:?}");
        }
        for verb in program.get_subcommands().filter(|verb| jobs.contains(&verb.get_name())) {
            for name in flags(verb).flat_map(names) {
                assert!(!OWN.contains(&&*name), "{} --{name}", verb.get_name());
            }
        }
    }

    #[test]
    fn keys_take_what_their_flags_take() {
        let mut program = Cli::whole();
        program.build();
        let verb = |name| program.find_subcommand(name).unwrap();
        let key = |of, name| find(verb(of), name).map(|key| (key.flag, key.takes));
        let one = Takes::One { is_optional: false };
        assert_eq!(key("capture", "write"), Some(("--write".to_owned(), one)));
        assert_eq!(key("capture", "rotate"), Some(("--rotate".to_owned(), Takes::Several)));
        assert_eq!(key("capture", "C"), Some(("-C".to_owned(), one)));
        assert_eq!(key("capture", "depth"), Some(("--buffer".to_owned(), one)), "an alias");
        assert_eq!(key("capture", "lossless"), Some(("--lossless".to_owned(), Takes::Nothing)));
        let optional = Takes::One { is_optional: true };
        assert_eq!(key("count", "verify"), Some(("--verify".to_owned(), optional)));
        for absent in ["json", "help", SUPERVISED, LIST, "w", "nonsense"] {
            assert_eq!(key("capture", absent), None, "{absent}");
        }
    }
}
