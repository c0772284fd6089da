//! Answers to the senders of rejected packets, through ports that have one sink each.

use burstline_engine::{InlineOptions, open_inline};
use burstline_port::{Address, OpenOptions, Treatment};
use burstline_share::PublishConfig;
use burstline_sys::temporary::TemporaryFolder;

fn opened(keys: [&str; 2], is_both: bool) -> Vec<String> {
    let folder = TemporaryFolder::create("burstline-inline-").unwrap();
    let ends = ["a", "b"].map(|end| folder.file(end));
    let [from, to]: [Address; 2] =
        [0, 1].map(|end| format!("vhost:{}{}", ends[end], keys[end]).parse().unwrap());
    let inline = InlineOptions {
        publish: PublishConfig::new(folder.file("log")),
        workers: 1,
        is_open: true,
        deadline_ns: 1_000_000,
    };
    let (treatment, options) = (Treatment::default(), OpenOptions::default());
    let (crossings, _) = open_inline([&from, &to], is_both, &treatment, &options, &inline).unwrap();
    crossings.iter().map(|crossing| crossing.account().notes.join(" ")).collect()
}

#[test]
fn the_way_back_has_the_keys_of_the_port() {
    let notes = opened(["?queues=2", ""], false).concat();
    assert!(!notes.contains("get no answer"), "{notes}");
}

#[test]
fn ports_with_one_sink_that_cross_both_ways_have_no_way_back_and_say_so() {
    for notes in opened(["?queues=2", "?queues=2"], true) {
        assert!(notes.contains("senders of rejected packets get no answer"), "{notes}");
    }
}
