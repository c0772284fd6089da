//! Counts the packets of a file in memory: our program against similar programs, each as a process
//! timed from start to exit.

use std::process::Command;

use burstline_sys::clock;

use crate::compared::{Better, Outcome};
use crate::figures::Context;
use crate::figures::capture_file::CaptureFile;
use crate::live::Need;
use crate::programs::our_program;

/// About 1 GB at 350 bytes each.
const PACKETS: u64 = 2_670_000;
const SEED: u64 = 20_240_607;

/// `count-file-tcpdump`: `tcpdump -r FILE --count`.
pub(crate) fn against_tcpdump(context: &Context) -> Result<Outcome, String> {
    let needs = Need { program: "tcpdump", package: "tcpdump" };
    let peer = Peer { needs, before: &["-r"], after: &["--count"], count: first_number };
    measure(context, &[], &peer)
}

/// `count-file-capinfos`: `capinfos -c FILE`; ours also computes a flow hash.
pub(crate) fn against_capinfos(context: &Context) -> Result<Outcome, String> {
    let needs = Need { program: "capinfos", package: "wireshark-common" };
    let peer = Peer { needs, before: &["-M", "-c"], after: &[], count: last_number };
    measure(context, &["--hash", "five-tuple"], &peer)
}

/// How to run a rival, and where its output has the count.
struct Peer {
    needs: Need,
    before: &'static [&'static str],
    after: &'static [&'static str],
    count: fn(&str) -> Option<u64>,
}

fn measure(context: &Context, flags: &[&str], peer: &Peer) -> Result<Outcome, String> {
    let (ours, program) = (our_program()?, peer.needs.program);
    if let Some(why) = peer.needs.missing() {
        return Ok(Outcome::NotHere(why));
    }
    let packets = if context.smoke { 2000 } else { PACKETS };
    let file = CaptureFile::create(packets, SEED)?;
    let source = format!("file:{}", file.path().display());
    let comparison = context.begin();
    let rounds = context.turns(
        context.runs,
        || {
            let mut command = Command::new(&ours);
            command.args(["count", &source, "--json"]).args(flags);
            counted(&mut command, packets, our_count)
        },
        || {
            let mut command = Command::new(program);
            command.args(peer.before).arg(file.path()).args(peer.after);
            counted(&mut command, packets, peer.count)
        },
    )?;
    let details = vec![
        format!("{packets} packets, {} bytes, {}", file.bytes(), file.path().display()),
        format!("ours: burstline count FILE --json {}", flags.join(" ")).trim_end().to_owned(),
        format!("peer: {program} {} FILE {}", peer.before.join(" "), peer.after.join(" ")),
        "wall time of whole processes, file in the page cache, counts equal".to_owned(),
    ];
    Ok(comparison.outcome("s", Better::Lower, rounds, details))
}

/// Runs it to its end and returns its output.
pub(crate) fn run(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().display().to_string();
    let output = command.output().map_err(|error| format!("{name}: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{name}: {}: {}", output.status, said.trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs it to its end. Returns its seconds and its output.
pub(crate) fn timed(command: &mut Command) -> Result<(f64, String), String> {
    let start_ns = clock::monotonic_ns();
    let said = run(command)?;
    Ok(((clock::monotonic_ns() - start_ns) as f64 / 1e9, said))
}

fn counted(
    command: &mut Command,
    packets: u64,
    count: impl Fn(&str) -> Option<u64>,
) -> Result<f64, String> {
    let (seconds, said) = timed(command)?;
    match count(&said) {
        Some(counted) if counted == packets => Ok(seconds),
        counted => {
            let name = command.get_program().display();
            Err(format!("{name} counted {counted:?} packets, not {packets}: {said}"))
        }
    }
}

fn our_count(said: &str) -> Option<u64> {
    let json: serde_json::Value = serde_json::from_str(said.trim()).ok()?;
    json["total"]["delivered"].as_u64()
}

pub(crate) fn first_number(said: &str) -> Option<u64> {
    said.split_whitespace().next()?.parse().ok()
}

pub(crate) fn last_number(said: &str) -> Option<u64> {
    said.split_whitespace().last()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_found_in_what_each_program_says() {
        assert_eq!(first_number("2670000 packets\n"), Some(2_670_000));
        let capinfos = "File name:           x.pcap\nNumber of packets:   2670000\n";
        assert_eq!(last_number(capinfos), Some(2_670_000));
        let ours = r#"{"command":"count","total":{"offered":5,"delivered":5}}"#;
        assert_eq!((our_count(ours), our_count("5 packets")), (Some(5), None));
    }
}
