//! The requests that a running switch answers.
//!
//! | `command` | besides | answer |
//! |---|---|---|
//! | `show` | | the status: ports, addresses, rules, meters, mirrors |
//! | `macs`, `flush-macs` | | `addresses`; `forgotten` |
//! | `add-port`, `del-port` | `port` | |
//! | `set-rules` | `config`: a file's text | `rules`: how many |
//! | `mirror`, `unmirror` | `to`; `in`, `out`, `both`, `vlans` | `removed` |

use burstline_engine::{EngineError, Fabric, OpenedPort, OpenedTarget, SwitchHandle, SwitchPort};
use burstline_port::{Address, OpenOptions};
use burstline_switch::{Config, Mirror, Selection, SwitchError, UnknownName, VlanSet};
use burstline_sys::helper;
use serde_json::{Value, json};

use super::Opens;
use crate::failure::Failure;
use crate::view;

/// Schemes whose ports are opened by threads with rights: a library and a namespace take them.
const WITH_RIGHTS: [&str; 2] = ["dpdk", "inject"];

/// Executes a request.
pub(super) fn carry_out(
    request: &Value,
    handle: &SwitchHandle,
    options: &OpenOptions,
) -> Result<Value, Failure> {
    let text = |key: &str| {
        let value = request[key].as_str();
        value.ok_or_else(|| Failure::new(format!("the request has no \"{key}\"")))
    };
    let mut answer = match text("command")? {
        "show" => view::switch::json(&ask(handle, |fabric| fabric.status())?),
        "macs" => view::switch::addresses_json(&ask(handle, |fabric| fabric.addresses())?),
        "flush-macs" => {
            json!({ "forgotten": ask(handle, Fabric::forget_addresses)? })
        }
        "add-port" => add_port(text("port")?, handle, options)?,
        "del-port" => {
            let port = text("port")?.to_owned();
            change(handle, move |fabric| fabric.remove(&port))??;
            json!({})
        }
        "set-rules" => set_rules(text("config")?, handle, options)?,
        "mirror" => add_mirror(mirror_of(request, text("to")?)?, handle, options)?,
        "unmirror" => {
            let to = text("to")?.to_owned();
            json!({ "removed": change(handle, move |fabric| remove_mirrors(fabric, &to))? })
        }
        other => {
            let known = "show, macs, flush-macs, add-port, del-port, set-rules, mirror, unmirror";
            return Err(Failure::new(format!("there is no command {other}; there are {known}")));
        }
    };
    answer["ok"] = true.into();
    Ok(answer)
}

/// Returns what a request names: what it may take to carry it out.
pub(super) fn opens_of(request: &Value) -> Opens {
    let text = |key: &str| request[key].as_str();
    let mut opens = Opens::default();
    // What is wrong in a request is said when it is carried out.
    match text("command") {
        Some("add-port") => {
            let port = text("port").and_then(|port| port.parse::<SwitchPort>().ok());
            opens.add_targets(port.iter().filter_map(|port| port.mirror.as_deref()));
            opens.ports.extend(port.map(|port| port.address));
        }
        Some("mirror") => opens.add_targets(text("to")),
        Some("set-rules") => {
            if let Some(Ok(config)) = text("config").map(Config::parse) {
                opens.add_targets(config.rules.targets());
            }
        }
        _ => {}
    }
    opens
}

/// Fails for a port that no helper can open.
fn check_without_rights(address: &Address) -> Result<(), Failure> {
    match helper::is_needed() && WITH_RIGHTS.contains(&address.scheme()) {
        true => Err(Failure::new(format!(
            "{address}: such ports take rights that a running switch has given up: give it when \
             the switch starts, or start the switch with --keep-privileges"
        ))),
        false => Ok(()),
    }
}

/// Opens mirror sinks that are not among the `known` ends.
fn open_missing(
    targets: &[&str],
    known: &[String],
    options: &OpenOptions,
) -> Result<Vec<OpenedTarget>, Failure> {
    let is_missing = |to: &&str| !known.iter().any(|name| name == to);
    let missing: Vec<&str> = targets.iter().copied().filter(is_missing).collect();
    open_targets(&missing, options)
}

/// Opens sinks for mirrors.
pub(super) fn open_targets(
    names: &[&str],
    options: &OpenOptions,
) -> Result<Vec<OpenedTarget>, Failure> {
    let open = |name: &&str| OpenedTarget::open(name, options);
    let opened: Result<_, _> = names.iter().map(open).collect();
    Ok(opened.map_err(EngineError::from)?)
}

fn ask<T: Send + 'static>(
    handle: &SwitchHandle,
    order: impl FnOnce(&mut Fabric) -> T + Send + 'static,
) -> Result<T, Failure> {
    handle.ask(order).ok_or_else(is_ending)
}

/// Like [`ask`], but waits until everything removed by the order is closed.
fn change<T: Send + 'static>(
    handle: &SwitchHandle,
    order: impl FnOnce(&mut Fabric) -> T + Send + 'static,
) -> Result<T, Failure> {
    handle.change(order).ok_or_else(is_ending)
}

fn is_ending() -> Failure {
    Failure::new("the switch is ending")
}

fn add_port(text: &str, handle: &SwitchHandle, options: &OpenOptions) -> Result<Value, Failure> {
    let port: SwitchPort = text.parse()?;
    let name = port.name().map_err(EngineError::from)?;
    let known = ask(handle, |fabric| fabric.names())?;
    if known.contains(&name) {
        return Err(EngineError::from(SwitchError::Taken { name }).into());
    }
    check_without_rights(&port.address)?;
    let targets = open_missing(port.mirror.as_deref().as_slice(), &known, options)?;
    let opened = OpenedPort::open(&port, options).map_err(EngineError::from)?;
    change(handle, move |fabric| with_targets(fabric, targets, |fabric| fabric.add_port(opened)))??;
    Ok(json!({ "port": name }))
}

/// Adds mirror targets and runs an operation; removes them if it fails.
fn with_targets(
    fabric: &mut Fabric,
    targets: Vec<OpenedTarget>,
    job: impl FnOnce(&mut Fabric) -> Result<(), EngineError>,
) -> Result<(), EngineError> {
    let mut added = Vec::new();
    let mut outcome = Ok(());
    for target in targets {
        let name = target.name().to_owned();
        outcome = outcome.and_then(|()| fabric.add_target(target));
        added.push(name);
    }
    outcome = outcome.and_then(|()| job(fabric));
    if outcome.is_err() {
        for name in added {
            // Either it was just added, or adding failed.
            let _ = fabric.remove(&name);
        }
    }
    outcome
}

fn set_rules(text: &str, handle: &SwitchHandle, options: &OpenOptions) -> Result<Value, Failure> {
    let config = Config::parse(text).map_err(|error| Failure::new(error.to_string()))?;
    let known = ask(handle, |fabric| fabric.names())?;
    let wanted = config.rules.targets();
    let is_known = |name: &str| wanted.contains(&name) || known.iter().any(|known| known == name);
    // Check before opening a target.
    let check = config.rules.check(is_known);
    check.map_err(|unknown| named(&config, text, &unknown, &known))?;
    let targets = open_missing(&wanted, &known, options)?;
    let (rules, count) = (config.rules.clone(), config.rules.rules.len());
    let outcome = change(handle, move |fabric| {
        let before: Vec<String> = fabric.rules().targets().into_iter().map(str::to_owned).collect();
        with_targets(fabric, targets, |fabric| fabric.set_rules(rules))?;
        drop_targets(fabric, &before);
        Ok::<_, EngineError>(())
    })?;
    outcome.map_err(|error| match error {
        EngineError::UnknownEnd { rule, name } => {
            named(&config, text, &UnknownName { rule, name }, &known)
        }
        other => other.into(),
    })?;
    Ok(json!({ "rules": count }))
}

fn named(config: &Config, text: &str, unknown: &UnknownName, known: &[String]) -> Failure {
    Failure::new(config.unknown(text, unknown, &known.join(", ")).to_string())
}

/// Closes targets that no mirror uses any more. Ports stay.
fn drop_targets(fabric: &mut Fabric, targets: &[impl AsRef<str>]) {
    for target in targets.iter().map(AsRef::as_ref) {
        if fabric.is_target(target) {
            // A target in use by a mirror is not removed.
            let _ = fabric.remove(target);
        }
    }
}

fn remove_mirrors(fabric: &mut Fabric, to: &str) -> usize {
    let removed = fabric.remove_mirrors(to);
    drop_targets(fabric, &[to]);
    removed
}

fn mirror_of(request: &Value, to: &str) -> Result<Mirror, Failure> {
    let list = |key: &str| -> Vec<String> {
        let values = request[key].as_array().into_iter().flatten();
        values.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let vlans = request["vlans"].as_str().map(|text| {
        VlanSet::parse(text)
            .ok_or_else(|| Failure::new(format!("vlans '{text}': expected all, or 10,20-29")))
    });
    let takes =
        Selection { incoming: list("in"), outgoing: list("out"), vlans: vlans.transpose()? };
    let takes = takes.with_both(list("both"));
    if takes == Selection::default() {
        return Err(Failure::new("a mirror needs --in, --out, --both or --vlans"));
    }
    Ok(Mirror { to: to.to_owned(), takes })
}

fn add_mirror(
    mirror: Mirror,
    handle: &SwitchHandle,
    options: &OpenOptions,
) -> Result<Value, Failure> {
    let known = ask(handle, |fabric| fabric.names())?;
    let targets = open_missing(&[&mirror.to], &known, options)?;
    change(handle, move |fabric| {
        with_targets(fabric, targets, |fabric| fabric.add_mirror(mirror))
    })??;
    Ok(json!({}))
}
