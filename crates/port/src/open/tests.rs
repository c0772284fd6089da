use std::collections::BTreeSet;

use super::*;
use crate::Kind;
use crate::address::keys_read_by;

/// A parser of a key table, and an address for it.
struct Reader {
    keys: &'static [Key],
    text: &'static str,
    read: fn(&Address),
}

/// Returns every table with its parser. Parse errors are ignored: the test checks the keys read.
fn readers() -> Vec<Reader> {
    let reader = |keys, text, read: fn(&Address)| Reader { keys, text, read };
    vec![
        reader(file::SINK_KEYS, "file:no/such/file", file::read),
        reader(afpacket::KEYS, "afpacket:v0", afpacket::read),
        reader(file::SOURCE_KEYS, "file:x", file::read_source),
        reader(file::SET_KEYS, "set:/no/such/folder", |address| {
            let _ = file::open_set_address(address, &OpenOptions::default());
        }),
        reader(afpacket::SINK_KEYS, "afpacket:v0", afpacket::read_sink),
        reader(xdp::KEYS, "xdp:v0", xdp::read),
        reader(xdp::SINK_KEYS, "xdp:v0", xdp::read_sink),
        reader(xdp::BOUNCE_KEYS, "xdp:v0", xdp::read_end),
        reader(log_source::KEYS, "log:tap", log_source::read),
        reader(log_sink::KEYS, "log:tap", log_sink::read),
        reader(tap::KEYS, "tap:t0", tap::read),
        reader(tap::SINK_KEYS, "tap:t0", tap::read_sink),
        reader(vhost::KEYS, "vhost:/run/a", peer::read::<vhost::Port>),
        reader(vhost::SINK_KEYS, "vhost:/run/a", peer::read_sink::<vhost::Port>),
        reader(memif::KEYS, "memif:/run/a", peer::read::<memif::Port>),
        reader(memif::SINK_KEYS, "memif:/run/a", peer::read_sink::<memif::Port>),
        reader(inject::KEYS, "inject:v0", inject::read),
        reader(GENERATOR_KEYS, "gen:", generator::read),
        reader(nicsim::KEYS, "nicsim:", nicsim::read),
        #[cfg(feature = "dpdk")]
        reader(dpdk::KEYS, "dpdk:net_null0", dpdk::read),
    ]
}

fn tables() -> impl Iterator<Item = (&'static str, &'static [Key])> {
    SCHEMES.iter().flat_map(|scheme| {
        let tables = [scheme.source_keys(), scheme.sink_keys(), scheme.crossing_keys()];
        tables.into_iter().flatten().map(|keys| (scheme.name, keys))
    })
}

#[test]
fn what_is_read_of_an_address_is_its_table() {
    let readers = readers();
    for Reader { keys, text, read } in &readers {
        let address: Address = text.parse().unwrap();
        let names: BTreeSet<&str> = keys.iter().map(|key| key.name).collect();
        assert_eq!(names.len(), keys.len(), "{text}: each once");
        assert_eq!(keys_read_by(|| read(&address)), names, "{text}");
    }
    for (name, keys) in tables().filter(|(_, keys)| !keys.is_empty()) {
        let is_read = readers.iter().any(|reader| std::ptr::eq(reader.keys, keys));
        assert!(is_read || name == "dpdk" && !cfg!(feature = "dpdk"), "{name}: who reads it?");
    }
}

#[test]
fn every_default_is_a_value_and_every_key_has_help() {
    for (name, keys) in tables() {
        for key in keys {
            let what = format!("{name}: {}", key.name);
            assert!(key.description().len() > 5 && !key.shape().is_empty(), "{what}");
            let Some(default) = key.default else { continue };
            match key.kind {
                Kind::Words(words) => {
                    assert!(words.split('|').any(|word| word == default), "{what}")
                }
                Kind::Switch => assert!(["yes", "no"].contains(&default), "{what}"),
                Kind::Quantity(bounds) => assert!(bounds.read::<u64>(default).is_ok(), "{what}"),
                Kind::Text => {}
            }
        }
    }
}

#[test]
fn schemes_answer_for_their_addresses() {
    let address = |text: &str| text.parse::<Address>().unwrap();
    let are = |what: fn(&Address) -> bool| {
        let names = SCHEMES.iter().map(|scheme| scheme.name);
        names.filter(|name| what(&address(&format!("{name}:x")))).collect::<Vec<_>>()
    };
    assert_eq!(are(Address::is_file), ["file"]);
    assert_eq!(are(Address::takes_away), ["xdp"]);
    assert_eq!(
        are(Address::leads_to_interface),
        ["afpacket", "xdp", "dpdk", "tap", "vhost", "memif", "inject"]
    );
    assert_eq!(are(|address| address.interface().is_some()), ["afpacket", "xdp"]);
    assert!(address("-").is_standard() && !address("gen:-").is_standard());
    assert_eq!(address("xdp:a@3").interface(), Some(("a", Some(Queues::One("3")))));
    assert_eq!(address("xdp:a").interface(), Some(("a", Some(Queues::All))));
    assert_eq!(address("afpacket:a@3").interface(), Some(("a@3", None)));
    for (text, inward) in [
        ("eth0", "eth0?direction=in"),
        ("afpacket:e?blocks=4", "afpacket:e?blocks=4&direction=in"),
        ("afpacket:e?direction=out", "afpacket:e?direction=out"),
        ("gen:", "gen:"),
    ] {
        assert_eq!(address(text).inward().unwrap().to_string(), inward);
    }
}

#[test]
fn what_stands_behind_a_scheme_without_targets_is_refused_with_what_was_meant() {
    let address: Address = "gen:packets=10".parse().unwrap();
    let error = address.known_scheme().err().unwrap();
    assert_eq!(
        error.to_string(),
        "gen:packets=10: gen: takes only keys; did you mean gen:?packets=10?"
    );
    for text in ["gen:", "gen:?packets=10", "null:"] {
        assert!(text.parse::<Address>().unwrap().known_scheme().is_ok(), "{text}");
    }
}
