//! Programs and publishers that stop, die and restart while packets arrive.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Stdio};

use burstline_log::Ending;
use burstline_testbed::signal;

use crate::common::{DEVICE, Folder, library, run, until};
use crate::traffic::mix;

const PACKETS: usize = 20_000;

#[test]
fn a_sensor_that_is_stopped_and_killed_takes_nothing_from_another_one() {
    let Some(folder) = Folder::with(&["tcpdump"], "test") else { return };
    let packets = folder.keep(mix(PACKETS));
    let print = ["-n", "-tt", "-x", "--nano"];
    let mut victim = folder.preloaded("tcpdump");
    // Not lossless: a publisher waits for a stopped lossless reader, as requested.
    victim.args(["-i", "burst:tap?start=oldest", "-w", "/dev/null"]).stderr(Stdio::piped());
    let publishing = folder.publish(packets, 2);
    let mut victim = victim.spawn().unwrap();
    // tcpdump reports that it has attached; the publisher waits until both are there.
    let mut said = BufReader::new(victim.stderr.take().unwrap()).lines();
    assert!(said.any(|line| line.unwrap().contains("listening on")));
    let mut other = folder.preloaded("tcpdump");
    other.args(print).args(["-i", DEVICE]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut other = other.spawn().unwrap();
    let mut complained = BufReader::new(other.stderr.take().unwrap()).lines();
    assert!(complained.any(|line| line.unwrap().contains("listening on")));
    signal(victim.id(), "-STOP").unwrap();
    std::thread::sleep(std::time::Duration::from_millis(50));
    signal(victim.id(), "-KILL").unwrap();
    victim.wait().unwrap();
    let said = other.wait_with_output().unwrap();
    publishing.end();
    let theirs = run(folder.command("tcpdump").args(print).args(["-r", "file.pcap"]), 0);
    assert!(said.status.success());
    assert_eq!(String::from_utf8_lossy(&said.stdout), theirs);
}

#[test]
fn a_sensor_goes_on_with_the_next_publisher() {
    let Some(folder) = Folder::with(&["tcpdump"], "test") else { return };
    let packets = folder.keep(mix(2000));
    let (first, second) = packets.split_at(1200);
    // Print a line for each packet immediately. Keep privileges, to open the log again.
    let print = ["-n", "-tt", "-e", "-l", "--nano", "-Z", "root"];
    let publishing = folder.publish_until(first.to_vec(), 1, Ending::Stopped, false);
    let printed = fs::File::create(folder.at("printed")).unwrap();
    let mut live = folder.preloaded("tcpdump");
    let mut live = live.args(print).args(["-i", DEVICE]).stdout(printed).spawn().unwrap();
    let printed = || fs::read_to_string(folder.at("printed")).unwrap();
    until("the first publisher's packets are printed", || printed().lines().count() == 1200);
    publishing.end();
    let publishing = folder.publish(second.to_vec(), 1);
    assert!(live.wait().unwrap().success());
    publishing.end();
    let theirs = run(folder.command("tcpdump").args(print).args(["-r", "file.pcap"]), 0);
    assert_eq!(printed(), theirs);
}

/// A tcpdump that starts later prints the same: TCP numbers do not count from its first packet.
const UPGRADED: [&str; 5] = ["-n", "-S", "-tt", "-x", "--nano"];

/// Starts tcpdump with the library at this path, on new packets. Returns once it has printed a
/// packet into a file.
fn start_with(folder: &Folder, library: &Path, printed: &str) -> Child {
    let mut live = folder.command("tcpdump");
    live.env("LD_PRELOAD", library).args(UPGRADED).args(["-l", "-i"]);
    live.arg("burst:tap?lossless").stdout(File::create(folder.at(printed)).unwrap());
    let live = live.spawn().unwrap();
    until("it prints packets", || fs::metadata(folder.at(printed)).unwrap().len() > 0);
    live
}

/// Packets come slowly while tcpdumps start and end. The publisher waits for them all: it has to
/// notice itself that one was killed.
#[test]
fn a_sensor_is_upgraded_under_load() {
    let Some(folder) = Folder::with(&["tcpdump"], "test") else { return };
    let packets = folder.keep(mix(PACKETS));
    let installed = folder.at("libburstline-pcap.so");
    fs::copy(library(), &installed).unwrap();
    let publishing = folder.publish_slowly(packets, 2);
    let mut watcher = folder.preloaded("tcpdump");
    watcher.args(UPGRADED).args(["-i", DEVICE]).stdout(File::create(folder.at("all")).unwrap());
    let mut watcher = watcher.spawn().unwrap();
    let mut old = start_with(&folder, &installed, "old");
    let inode = |path: &Path| fs::metadata(path).unwrap().ino();
    let before = inode(&installed);
    // A new file takes the name while the old one is still mapped.
    fs::copy(library(), folder.at("next")).unwrap();
    fs::rename(folder.at("next"), &installed).unwrap();
    assert_ne!(inode(&installed), before);
    let so_far = |name| fs::metadata(folder.at(name)).unwrap().len();
    let (then, is_mapped) = (so_far("old"), mapped(&old, before));
    assert!(is_mapped, "the old one goes on with the old file");
    until("the old one goes on", || so_far("old") > then);
    signal(old.id(), "-KILL").unwrap();
    old.wait().unwrap();
    let mut new = start_with(&folder, &installed, "new");
    assert!(mapped(&new, inode(&installed)) && !publishing.is_written());
    publishing.hurry();
    for program in [&mut watcher, &mut new] {
        assert!(program.wait().unwrap().success());
    }
    publishing.end();
    let theirs = run(folder.command("tcpdump").args(UPGRADED).args(["-r", "file.pcap"]), 0);
    let printed = |name| fs::read_to_string(folder.at(name)).unwrap();
    assert_eq!(printed("all"), theirs, "the other reader has lost nothing by it");
    let new = printed("new");
    assert!(theirs.ends_with(&new), "from its first packet to the last, nothing is missing");
}

fn mapped(program: &Child, inode: u64) -> bool {
    let maps = fs::read_to_string(format!("/proc/{}/maps", program.id())).unwrap();
    maps.lines().any(|line| line.split_whitespace().nth(4) == Some(&inode.to_string()))
}
