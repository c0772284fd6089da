//! The examples, linked both ways, with a publisher in another process.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{Directory, Ledger, PORTS, Talker};
use crate::installed::{Link, library, repository, run, with_tools};

fn example(name: &str, directory: &Directory, link: Link) -> PathBuf {
    let source = repository().join(format!("examples/c/{name}.c"));
    library().compile(&source, directory.path(), link, &[])
}

/// Starts an example as a reader of `name`, and waits until it reads.
fn start(program: &Path, arguments: &[&str]) -> Talker {
    let mut talker = Talker::start(library().command(program).args(arguments));
    talker.hear("reading");
    talker
}

/// Returns the lines `NAME NUMBER` of an example's output.
fn numbers(text: &str) -> BTreeMap<&str, u64> {
    let pairs = text.lines().filter_map(|line| line.split_once(' '));
    pairs.filter_map(|(name, number)| Some((name, number.parse().ok()?))).collect()
}

#[test]
fn the_counter_agrees_with_the_writers_ledger() {
    let Some(directory) = with_tools() else { return };
    for (link, trust) in [(Link::Shared, "lossless"), (Link::Static, "inplace")] {
        let program = example("count", &directory, link);
        let name = directory.name(trust);
        let mut publisher = Talker::role("publisher", &[&name, "2", "20000"]);
        publisher.hear("epoch");
        // From the oldest, so that packets written while it attaches are included.
        let counter = start(&program, &[&name, "oldest", "lossless", trust]);
        let one: Ledger = publisher.hear("ledger").parse().unwrap();
        let two: Ledger = publisher.hear("ledger").parse().unwrap();
        publisher.end();
        let said = counter.end();
        let said = numbers(&said);
        assert_eq!((one.packets, two.packets), (20_000, 20_000));
        assert_eq!(said["packets"], one.packets + two.packets);
        assert_eq!(said["bytes"], one.bytes + two.bytes);
        assert_eq!(said["offered"], said["packets"]);
        assert_eq!((said["missed"], said["lag"], said["writer_down"]), (0, 0, 0));
    }
}

#[test]
fn the_walk_finds_what_was_written_back_to_back() {
    let Some(directory) = with_tools() else { return };
    for link in [Link::Shared, Link::Static] {
        let program = example("walk", &directory, link);
        let name = directory.name(&format!("{link:?}"));
        let mut publisher = Talker::role("publisher", &[&name, "1", "20000"]);
        publisher.hear("epoch");
        let walker = start(&program, &[&name, "lossless"]);
        let ledger: Ledger = publisher.hear("ledger").parse().unwrap();
        publisher.end();
        let text = walker.end();
        let said = numbers(&text);
        assert_eq!((said["packets"], said["sum"]), (ledger.packets, ledger.sum));
        assert_eq!((said["cut_short"], ledger.cut_short), (400, 400));
        assert_eq!((said["not_adjacent"], said["out_of_order"], said["skipped"]), (0, 0, 0));
        assert_eq!((said["offered"], said["missed"]), (ledger.packets, 0));
        for port in 0..PORTS as usize {
            let line = format!("port {port} eth{port} packets {} bytes", ledger.of_ports[port]);
            assert!(text.contains(&line), "{line}: {text}");
        }
    }
}

#[test]
fn a_killed_publisher_is_read_to_its_last_packet() {
    let Some(directory) = with_tools() else { return };
    let (count, walk) =
        (example("count", &directory, Link::Shared), example("walk", &directory, Link::Shared));
    let name = directory.name("tap");
    let mut publisher = Talker::role("publisher", &[&name, "1", "5000"]);
    let epoch: u64 = publisher.hear("epoch").parse().unwrap();
    // The writer continues once one of them is attached. The second finds all packets: a lossless
    // reader from the oldest misses nothing that fits into the log.
    let (follower, stayer) =
        (start(&count, &[&name, "lossless", "oldest"]), start(&walk, &[&name, "lossless"]));
    let first: Ledger = publisher.hear("ledger").parse().unwrap();
    publisher.kill();
    let text = stayer.end();
    let said = numbers(&text);
    assert!(said["packets"] <= first.packets && said["missed"] == 0, "{text}");
    assert_eq!(said["offered"], said["packets"]);

    // A new publisher takes over the name, and the counter follows it.
    let mut publisher = Talker::role("publisher", &[&name, "1", "300"]);
    assert_eq!(publisher.hear("epoch"), (epoch + 1).to_string());
    let second: Ledger = publisher.hear("ledger").parse().unwrap();
    publisher.end();
    let text = follower.end();
    let said = numbers(&text);
    assert_eq!(said["packets"], first.packets + second.packets);
    assert_eq!(said["bytes"], first.bytes + second.bytes);
    assert_eq!((said["offered"], said["missed"]), (said["packets"], 0));
    assert_eq!((said["writer_down"], said["epoch"]), (1, epoch + 1));
}

/// Every packet whose number is a multiple of 9 contains the text.
#[test]
fn the_verdicts_are_those_that_the_publisher_takes() {
    let Some(directory) = with_tools() else { return };
    for link in [Link::Shared, Link::Static] {
        let program = example("verdict", &directory, link);
        let name = directory.name(&format!("{link:?}"));
        let mut publisher = Talker::role("inline_publisher", &[&name, "9000"]);
        publisher.hear("epoch");
        let worker = start(&program, &[&name, "bad bytes"]);
        let taken = publisher.hear("taken");
        publisher.end();
        assert_eq!(taken, "passed 8000 dropped 1000 other 0");
        let text = worker.end();
        let said = numbers(&text);
        assert_eq!((said["passed"], said["dropped"], said["missed"]), (8000, 1000, 0), "{text}");
    }
}

#[test]
fn a_wrong_name_is_told() {
    let Some(directory) = with_tools() else { return };
    let count = example("count", &directory, Link::Shared);
    for (name, wanted) in [
        ("absent", "count: no log is published as absent: "),
        ("a b", "count: \"a b\" is not a name for a log: "),
        ("", "count: \"\" is not a name for a log: it is empty; "),
    ] {
        let mut command = library().command(&count);
        let output = command.arg(name).env("BURSTLINE_RUN", directory.path()).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(text.starts_with(wanted), "{text}");
        assert_eq!(text.lines().count(), 1);
    }
}

#[test]
fn the_examples_makefile_works() {
    let Some(directory) = with_tools() else { return };
    let sources = repository().join("examples/c");
    for file in ["Makefile", "count.c", "publish.c", "verdict.c", "walk.c"] {
        std::fs::copy(sources.join(file), directory.path().join(file)).unwrap();
    }
    let path = library().libraries().join("pkgconfig");
    let prefix = path.ancestors().nth(2).unwrap();
    for link in ["LINK=shared", "LINK=static"] {
        run(Command::new("make")
            .args(["-B", link])
            .arg(format!("PKG_CONFIG=pkg-config --define-variable=prefix={}", prefix.display()))
            .current_dir(directory.path())
            .env_remove("MAKEFLAGS")
            .env("LIBRARY_PATH", library().libraries())
            .env("PKG_CONFIG_PATH", &path));
        assert!(directory.path().join("walk").is_file());
        std::fs::remove_file(directory.path().join("walk")).unwrap();
    }
}

#[test]
fn what_c_publishes_c_reads() {
    let Some(directory) = with_tools() else { return };
    for link in [Link::Shared, Link::Static] {
        let (publish, count) =
            (example("publish", &directory, link), example("count", &directory, link));
        let name = directory.name(&format!("{link:?}"));
        let mut command = library().command(&publish);
        let mut publisher = Talker::start(command.args([&name, "20000"]));
        publisher.hear("publishing");
        let counter = start(&count, &[&name, "oldest", "lossless", "inplace"]);
        let said = publisher.end();
        let (said, read) = (numbers(&said), counter.end());
        let read = numbers(&read);
        assert_eq!((said["offered"], said["published"], said["full"]), (20_000, 20_000, 0));
        assert_eq!((said["flow_1000"], said["flow_1003"]), (5000, 5000));
        assert_eq!((read["packets"], read["bytes"], read["missed"]), (20_000, 1_200_000, 0));
    }
}
