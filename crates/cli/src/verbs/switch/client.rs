//! Commands that control a running switch: send a request over its socket and print the answer.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;

use burstline_engine::EngineError;
use burstline_share::switch_sockets_to_look;
use burstline_sys::inode;
use serde_json::{Value, json};

use crate::args::{MirrorArgs, Named, SwitchAction};
use crate::confinement::give_up;
use crate::failure::Failure;
use crate::view;
use crate::view::switch as text;

/// The longest answer of a switch, in bytes.
const ANSWER_BYTES: u64 = 16 << 20;

/// Sends a switch a request and prints its answer.
pub(super) fn control(action: &SwitchAction) -> Result<ExitCode, Failure> {
    let (named, request, show): (&Named, Value, fn(&Value) -> String) = match action {
        SwitchAction::Show(named) => (named, json!({ "command": "show" }), text::ports_text),
        SwitchAction::Stats(named) => (named, json!({ "command": "show" }), text::stats_text),
        SwitchAction::Macs { named, flush: false } => {
            (named, json!({ "command": "macs" }), text::addresses_text)
        }
        SwitchAction::Macs { named, flush: true } => {
            (named, json!({ "command": "flush-macs" }), |answer| {
                format!("forgot {} addresses\n", answer["forgotten"])
            })
        }
        SwitchAction::AddPort { named, port } => {
            (named, json!({ "command": "add-port", "port": port }), nothing)
        }
        SwitchAction::DelPort { named, port } => {
            (named, json!({ "command": "del-port", "port": port }), nothing)
        }
        SwitchAction::Rules { named, set: None } => {
            (named, json!({ "command": "show" }), text::rules_text)
        }
        SwitchAction::Rules { named, set: Some(path) } => {
            return set_rules(named, &path.display().to_string());
        }
        SwitchAction::Mirror(mirror) => match &mirror.to {
            None => (&mirror.named, json!({ "command": "show" }), text::mirrors_text),
            Some(to) => (&mirror.named, mirror_request(mirror, to), nothing),
        },
    };
    let answer = ask(&named.name, &request)?;
    print(named, &answer, show)
}

/// Formats an answer without content.
fn nothing(_answer: &Value) -> String {
    String::new()
}

fn print(named: &Named, answer: &Value, show: fn(&Value) -> String) -> Result<ExitCode, Failure> {
    let text = match named.json {
        true => format!("{answer}\n"),
        false => show(answer),
    };
    view::say(&text)
}

fn set_rules(named: &Named, path: &str) -> Result<ExitCode, Failure> {
    let config = inode::read_text(Path::new(path));
    let config = config.map_err(|error| Failure::new(format!("read {path}: {error}")))?;
    let answer = ask(&named.name, &json!({ "command": "set-rules", "config": config }));
    // The switch has the text of the file but not its path.
    let answer = answer.map_err(|failure| Failure::new(format!("{path}: {failure}")))?;
    print(named, &answer, |answer| format!("{} rules\n", answer["rules"]))
}

fn mirror_request(args: &MirrorArgs, to: &str) -> Value {
    match args.remove {
        true => json!({ "command": "unmirror", "to": to }),
        false => json!({
            "command": "mirror",
            "to": to,
            "in": args.incoming,
            "out": args.outgoing,
            "both": args.both,
            "vlans": args.vlans,
        }),
    }
}

/// Sends one request and returns the answer.
fn ask(name: &str, request: &Value) -> Result<Value, Failure> {
    let socket = connect(name)?;
    let fail = |error: io::Error| Failure::new(format!("the switch {name}: {error}"));
    (&socket).write_all(format!("{request}\n").as_bytes()).map_err(fail)?;
    // The answer is not trusted.
    give_up()?;
    let mut line = String::new();
    BufReader::new(&socket).take(ANSWER_BYTES).read_line(&mut line).map_err(fail)?;
    let answer: Option<Value> = serde_json::from_str(&line).ok();
    let silent = || Failure::new(format!("the switch {name} ended without an answer"));
    let answer = answer.ok_or_else(silent)?;
    match answer["ok"].as_bool() {
        Some(true) => Ok(answer),
        _ => Err(Failure::new(answer["error"].as_str().unwrap_or("no reason given"))),
    }
}

fn connect(name: &str) -> Result<UnixStream, Failure> {
    let places = switch_sockets_to_look(name).map_err(EngineError::from)?;
    let mut denied = None;
    for place in &places {
        match UnixStream::connect(place) {
            Ok(socket) => return Ok(socket),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                denied = Some(format!("{}: {error}", place.display()));
            }
            Err(_) => {}
        }
    }
    let looked: Vec<_> = places.iter().map(|place| place.display().to_string()).collect();
    let nobody = format!("no switch {name} runs (looked for {})", looked.join(", "));
    Err(Failure::new(denied.unwrap_or(nobody)))
}
