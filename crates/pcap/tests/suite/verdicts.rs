//! Tests which verdict each packet gets from programs in line, whether they give verdicts or do not
//! know them.

use std::process::{Child, Command, Stdio};

use burstline_log::{Appended, Ending, LogConfig, Meta, Ruling, VerdictTaker};
use burstline_share::LosslessReaders;

use crate::common::{Folder, compiled, until};
use crate::traffic::{Packet, mix};

const PACKETS: usize = 600;
/// The first byte of a program's own replacement.
const CHANGED: u8 = 0xfe;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Got {
    Nothing,
    Pass,
    Drop,
    Reject,
    PassFlow,
    /// The packet's own bytes, except for the first.
    Changed,
}

/// Runs a program on packets that wait, as `ips`, and returns what each packet got. The log ends
/// when all are decided; a program may end earlier.
fn decided(folder: &Folder, command: &mut Command, packets: &[Packet]) -> (String, Vec<Got>) {
    decided_until(folder, command, packets, |_| {})
}

/// The same with a program that has to be ended, too.
pub(crate) fn decided_until(
    folder: &Folder,
    command: &mut Command,
    packets: &[Packet],
    end: impl FnOnce(&Child),
) -> (String, Vec<Got>) {
    let config = LogConfig { takes_verdicts: true, ..LogConfig::default() };
    let (publisher, log, mut writer) = folder.log("ips", 64, config, LosslessReaders::Refused);
    let mut taker = VerdictTaker::new(&log);
    let program = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("somebody gives verdicts", || taker.has_changed() && taker.has_giver());
    for (number, Packet { time_ns, bytes }) in packets.iter().enumerate() {
        let meta = Meta::new(*time_ns, bytes.len() as u32, 0);
        assert_eq!(writer.append(bytes, &meta), Appended::Whole);
        if number % 32 == 0 {
            writer.publish();
        }
    }
    writer.publish();
    let look = |taker: &VerdictTaker| {
        let look = |(number, packet): (usize, &Packet)| got(taker, number as u64, &packet.bytes);
        packets.iter().enumerate().map(look).collect::<Vec<_>>()
    };
    until("all are decided, or the program has gone", || {
        taker.is_changing() || !look(&taker).contains(&Got::Nothing)
    });
    let found = look(&taker);
    writer.finish(Ending::Final);
    end(&program);
    let said = program.wait_with_output().unwrap();
    drop(publisher);
    let [said, complained] =
        [said.stdout, said.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
    (said + &complained, found)
}

fn got(taker: &VerdictTaker, number: u64, bytes: &[u8]) -> Got {
    match taker.look(number) {
        None => Got::Nothing,
        Some(Ruling::Pass) => Got::Pass,
        Some(Ruling::Drop) => Got::Drop,
        Some(Ruling::Reject) => Got::Reject,
        Some(Ruling::PassFlow) => Got::PassFlow,
        Some(Ruling::Replace(replacement)) => {
            let mut other = Vec::new();
            taker.replacement(replacement, &mut other);
            assert_eq!((other[0], &other[1..]), (CHANGED, &bytes[1..]), "packet {number}");
            Got::Changed
        }
        Some(Ruling::Invalid) => panic!("packet {number}"),
    }
}

/// Returns what packets get from the C program. It starts with the oldest, to see all packets.
fn c_program(case: &str, options: &str, limit: usize) -> Option<Vec<Got>> {
    let folder = Folder::new();
    let program = compiled(&folder, "verdicts")?;
    let mut command = folder.preloaded(program.to_str().unwrap());
    command.args([case, &format!("burst:ips?start=oldest&{options}"), &limit.to_string()]);
    let (said, found) = decided(&folder, &mut command, &mix(PACKETS));
    assert_eq!(said, "fine\n");
    Some(found)
}

/// Returns the verdicts of the C program's turns; packets it does not decide get `quiet`.
fn by_turns(count: usize, quiet: Got) -> Vec<Got> {
    let turns = [quiet, Got::Drop, Got::Reject, Got::PassFlow, Got::Changed, Got::Pass];
    turns.into_iter().cycle().take(count).collect()
}

#[test]
fn a_callback_decides_about_its_packet() {
    for (options, quiet) in [("verdict=pass", Got::Pass), ("verdict=drop", Got::Drop)] {
        let Some(found) = c_program("decide", options, PACKETS) else { return };
        assert_eq!(found, by_turns(PACKETS, quiet), "{options}");
    }
}

#[test]
fn after_next_ex_a_packet_is_decided_until_the_next_call() {
    // The last one is decided by closing the handle, and the remaining ones by nobody.
    let Some(found) = c_program("next", "verdict=reject", 601 - 6 * 50) else { return };
    let mut wanted = by_turns(301, Got::Reject);
    wanted.resize(PACKETS, Got::Nothing);
    assert_eq!(found, wanted);
}

#[test]
fn a_program_that_polls_leaves_no_packet_undecided() {
    let Some(found) = c_program("poll", "verdict=drop", PACKETS) else { return };
    assert_eq!(found, [Got::Drop; PACKETS]);
}

#[test]
fn a_loop_that_is_left_leaves_the_rest_undecided() {
    for case in ["break", "close"] {
        let Some(found) = c_program(case, "verdict=drop", 45) else { return };
        let mut wanted = vec![Got::Drop; 45];
        wanted.resize(PACKETS, Got::Nothing);
        assert_eq!(found, wanted, "{case}");
    }
}

#[test]
fn misuse_of_verdicts_is_an_error_and_no_fault() {
    let Some(found) = c_program("misuse", "verdict=pass", PACKETS) else { return };
    assert_eq!(found, [Got::Drop; PACKETS]);
}

/// The device's verdicts for packets that its filter selects, and for the others.
#[test]
fn tcpdump_is_a_firewall() {
    let Some(folder) = Folder::with(&["tcpdump"], "test") else { return };
    let packets = mix(PACKETS);
    let is_arp: Vec<bool> = packets.iter().map(|packet| packet.bytes[12..14] == [8, 6]).collect();
    let arps = is_arp.iter().filter(|is_arp| **is_arp).count();
    for (options, arp, other) in [
        ("verdict=drop", Got::Drop, Got::Pass),
        ("verdict=pass&rest=drop", Got::Pass, Got::Drop),
        ("verdict=reject&rest=pass-flow", Got::Reject, Got::PassFlow),
    ] {
        let mut tcpdump = folder.preloaded("tcpdump");
        tcpdump.args(["-n", "-tt", "-i", &format!("burst:ips?start=oldest&{options}"), "arp"]);
        let (said, found) = decided(&folder, &mut tcpdump, &packets);
        let wanted: Vec<_> = is_arp.iter().map(|is| if *is { arp } else { other }).collect();
        assert_eq!(found, wanted, "{options}: {said}");
        assert_eq!(said.matches(" ARP, ").count(), arps, "{said}");
    }
}
