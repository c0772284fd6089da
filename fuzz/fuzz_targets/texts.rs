//! Any text where a user's text is read: addresses, `gen:` ports, filters as numbers, flows,
//! quantities, scenarios of the lab. What is taken works; what is not has an error that prints.
//!
//! An input is a byte that says where, and the text.
#![no_main]

use std::fmt::Display;

use burstline_log::Scratch;
use burstline_port::{Address, OpenOptions, open_source};
use burstline_wire::filter::Program;
use burstline_wire::flow::FlowQuery;
use burstline_wire::grammar::{Bounds, Quantity, Rate};
use libfuzzer_sys::fuzz_target;

/// Packets that are taken of a generator.
const PACKETS: u64 = 64;

fuzz_target!(|data: &[u8]| {
    let Some((&where_, text)) = data.split_first() else {
        return;
    };
    let Ok(text) = std::str::from_utf8(text) else { return };
    match where_ % 6 {
        0 => prints(text.parse::<Address>().map(|address| address.to_string())),
        1 => generate(text),
        2 => filter(text),
        3 => prints(text.parse::<FlowQuery>().map(|query| query.five_tuple_hash())),
        4 => quantity(text),
        _ => prints(burstline_lab::scenario::parse(text).map(|scenario| scenario.name)),
    }
});

fn prints<T, E: Display>(result: Result<T, E>) {
    if let Err(error) = result {
        assert!(!error.to_string().is_empty());
    }
}

fn generate(text: &str) {
    let Ok(address) = format!("gen:{text}").parse::<Address>() else { return };
    let mut source = match open_source(&address, &OpenOptions::default()) {
        Ok(source) => source,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let _ = source.lend(&mut Scratch::new(), PACKETS);
}

fn filter(text: &str) {
    match Program::from_tcpdump_ddd(text) {
        Err(error) => assert!(!error.to_string().is_empty()),
        Ok(program) => {
            let packet: Vec<u8> = (0..=255).collect();
            for length in [0, 1, 14, 60, 256] {
                program.run(&packet[..length], length as u32 + 9);
            }
            let again = Program::from_tcpdump_ddd(&program.to_string());
            assert_eq!(again.as_ref().map(Program::instructions), Ok(program.instructions()));
        }
    }
}

fn quantity(text: &str) {
    for kind in [Quantity::Number, Quantity::Size, Quantity::Time, Quantity::Milliseconds] {
        prints(Bounds::new(kind, 1..=1 << 40).read::<u64>(text));
    }
    prints(text.parse::<Rate>());
}
