//! `burstline completions`: scripts generated from the definitions of the flags.
//!
//! The script contains the verbs and flags. Interfaces and published logs change, so the script
//! runs `burstline completions --words` wherever a port may be typed. An argument that is a port
//! has the hint [`PORT_HINT`]. The generators turn that into a list of host names, which is
//! replaced here.

use std::process::ExitCode;

use burstline_port::SCHEMES;
use burstline_share::published_sockets;
use burstline_sys::interface::present_interfaces;
use clap::{Arg, Command};
use clap_complete::Shell;

use crate::args::{ANY, Cli, PORT_HINT};
use crate::failure::Failure;
use crate::view;

/// The command with which scripts list ports.
const ASK: &str = "burstline completions --words 2>/dev/null";

/// Prints a completion script, or without a shell the current ports, one per line.
pub(crate) fn completions(shell: Option<Shell>) -> Result<ExitCode, Failure> {
    let text = shell.map_or_else(words, script);
    view::say(&text)
}

/// Returns interfaces, published logs, and the prefixes of other ports.
fn words() -> String {
    let interfaces = present_interfaces();
    let sockets = published_sockets();
    let names = sockets.iter().filter_map(|path| path.file_name()?.to_str());
    let logs = names.map(|name| format!("log:{name}"));
    let schemes = SCHEMES.iter().map(|scheme| format!("{}:", scheme.name));
    let all = interfaces.into_iter().chain([ANY.to_owned()]).chain(logs).chain(schemes);
    all.map(|word| word + "\n").collect()
}

fn script(shell: Shell) -> String {
    let mut program = Cli::whole();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut program, "burstline", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    match shell {
        Shell::Bash => bash(&script, &program),
        Shell::Fish => fish(&script, &program),
        Shell::Zsh => zsh(&script),
        _ => script,
    }
}

/// Returns the verbs that take a port.
fn verbs_with_ports(program: &Command) -> Vec<&str> {
    let is_meant = |verb: &&Command| verb.get_arguments().any(is_port);
    program.get_subcommands().filter(is_meant).map(Command::get_name).collect()
}

fn is_port(arg: &Arg) -> bool {
    arg.get_value_hint() == PORT_HINT
}

/// Returns the flags of all verbs that take a port, as typed.
fn flags_with_ports(program: &Command) -> Vec<String> {
    let args =
        program.get_subcommands().flat_map(Command::get_arguments).filter(|arg| is_port(arg));
    let mut flags = Vec::new();
    for arg in args {
        flags.extend(arg.get_long().map(|long| format!("--{long}")));
        flags.extend(arg.get_short().map(|short| format!("-{short}")));
    }
    flags.sort();
    flags.dedup();
    flags
}

/// Offers ports wherever a flag may be typed. Bash splits words at colons.
fn bash(script: &str, program: &Command) -> String {
    let (verbs, flags) = (verbs_with_ports(program).join("|"), flags_with_ports(program).join("|"));
    let function = format!(
        r#"_burstline_with_ports() {{
    local line="${{COMP_LINE:0:COMP_POINT}}" before="" is_port="" port
    local word="${{line##*[[:space:]]}}"
    case "${{COMP_WORDS[1]}}" in
        {verbs})
            _burstline "$1" "" "$3"
            [[ " ${{COMPREPLY[*]}} " == *" --help-all "* ]] && is_port=1
            case "$3" in {flags}) is_port=1 ;; esac
            ;;
    esac
    if [[ -z "$is_port" || "$word" == -* || $COMP_CWORD -lt 2 ]]; then
        _burstline "$@"
        return
    fi
    COMPREPLY=()
    while IFS= read -r port; do
        [[ "$port" == "$word"* ]] && COMPREPLY+=("$port")
    done < <({ASK})
    # Where there is none, readline completes names of files.
    (( ${{#COMPREPLY[@]}} )) || return
    while IFS= read -r port; do
        COMPREPLY+=("$port")
    done < <(compgen -f -- "$word")
    [[ "$word" == *:* && "$COMP_WORDBREAKS" == *:* ]] && before="${{word%:*}}:"
    COMPREPLY=("${{COMPREPLY[@]#"$before"}}")
}}
"#
    );
    let script = script.replace("complete -F _burstline ", "complete -F _burstline_with_ports ");
    match script.find("\nif [[") {
        Some(end) => format!("{}\n{function}{}", &script[..end], &script[end..]),
        None => script,
    }
}

/// Adds ports for arguments without a flag, for which fish would offer only files.
fn fish(script: &str, program: &Command) -> String {
    let script = script.replace("(__fish_print_hostnames)", &format!("({ASK})"));
    let verbs = verbs_with_ports(program).join(" ");
    let condition = format!("__fish_burstline_using_subcommand {verbs}");
    format!("{script}complete -c burstline -n \"{condition}\" -a \"({ASK})\"\n")
}

fn zsh(script: &str) -> String {
    let function = format!(
        "_burstline_ports() {{\n    local -a ports\n    ports=(${{(f)\"$({ASK})\"}})\n    \
         compadd -a ports\n    _files\n}}\n"
    );
    let script = script.replace(":_hosts", ":_burstline_ports");
    match script.split_once('\n') {
        Some((first, rest)) => format!("{first}\n\n{function}\n{rest}"),
        None => script,
    }
}
