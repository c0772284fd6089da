use burstline_skip::skip;

use super::*;

const ETHERNET: u16 = 1;
const RAW: u16 = 101;

/// Returns `None`, and counts the test as skipped, if there is no libpcap.
fn compiled(
    expression: &str,
    link_type: u16,
    snapshot_bytes: u32,
) -> Option<Result<Vec<RawInstruction>, PcapError>> {
    match compile(expression, link_type, snapshot_bytes, true) {
        Err(error @ PcapError::NotInstalled { .. }) => {
            skip(error);
            None
        }
        result => Some(result),
    }
}

fn raw(code: u16, jt: u8, jf: u8, k: u32) -> RawInstruction {
    RawInstruction { code, jt, jf, k }
}

#[test]
fn compiles_to_what_tcpdump_prints() {
    let Some(program) = compiled("ip", ETHERNET, 96) else { return };
    let expected = [raw(40, 0, 0, 12), raw(21, 0, 1, 0x800), raw(6, 0, 0, 96), raw(6, 0, 0, 0)];
    assert_eq!(program.unwrap(), expected);
}

#[test]
fn an_empty_expression_wants_everything() {
    let Some(program) = compiled("", ETHERNET, 65_535) else { return };
    assert_eq!(program.unwrap(), [raw(6, 0, 0, 65_535)]);
}

#[test]
fn link_types_are_those_of_files() {
    let Some(program) = compiled("ip6", RAW, 64) else { return };
    assert_eq!(program.unwrap()[0], raw(48, 0, 0, 0), "the version, in the first byte");
}

#[test]
fn a_tag_is_looked_for_in_the_bytes() {
    let Some(program) = compiled("vlan 5 and udp", ETHERNET, 64) else { return };
    let program = program.unwrap();
    assert!(program.iter().all(|instruction| instruction.k < 1 << 31), "{program:?}");
    assert!(program.iter().any(|instruction| instruction.k == 0x8100));
}

#[test]
fn a_wide_snapshot_is_the_widest_there_is() {
    let Some(program) = compiled("", ETHERNET, u32::MAX) else { return };
    assert_eq!(program.unwrap(), [raw(6, 0, 0, i32::MAX as u32)]);
}

#[test]
fn an_error_has_libpcaps_words() {
    for (expression, words) in [
        ("ip nonsense", "syntax error"),
        ("port 70000", "70000"),
        ("tcp and arp and (", "syntax error"),
        ("vlan 5000", "5000"),
        ("ip\0", "byte 2 is NUL"),
    ] {
        let Some(result) = compiled(expression, ETHERNET, 64) else { return };
        let Err(PcapError::Expression { text, message }) = result else {
            panic!("{expression}: {result:?}");
        };
        assert_eq!(text, expression);
        assert!(message.contains(words), "{expression}: {message}");
    }
    let Some(result) = compiled("ip", ETHERNET, 0) else { return };
    let error = result.unwrap_err().to_string();
    assert!(error.contains("rejects all packets"), "{error}");
}

#[test]
fn the_longest_expressions_fit_into_a_threads_stack() {
    let alternatives = |one: &str| {
        let mut text = "ip".to_owned();
        let mut number = 1;
        while text.len() + one.len() + 4 <= EXPRESSION_BYTES_MAX {
            text += &format!("{one}{number}");
            number += 1;
        }
        text
    };
    let depth = EXPRESSION_BYTES_MAX / 2 - 1;
    for expression in [
        alternatives(" or port "),
        alternatives(" and not port "),
        alternatives(" or vlan "),
        "not ".repeat(EXPRESSION_BYTES_MAX / 4 - 1) + "ip",
        "(".repeat(depth) + "ip" + &")".repeat(depth),
        format!("ip[{}0]=1", "1+".repeat(depth - 4)),
        "-".repeat(EXPRESSION_BYTES_MAX - 7) + "ip[0]=1",
    ] {
        assert!(expression.len() <= EXPRESSION_BYTES_MAX);
        match compile(&expression, ETHERNET, 64, false) {
            Ok(program) => assert!(!program.is_empty()),
            // A message is as good as a program: the call returned.
            Err(PcapError::Expression { message, .. }) => assert!(!message.is_empty()),
            Err(error) => return skip(error),
        }
    }
    let bytes = EXPRESSION_BYTES_MAX + 1;
    let result = compile(&"(".repeat(bytes), ETHERNET, 64, true);
    assert!(matches!(result, Err(PcapError::Length { bytes: found }) if found == bytes));
}

#[test]
fn threads_take_turns() {
    if compiled("ip", ETHERNET, 64).is_none() {
        return;
    }
    std::thread::scope(|scope| {
        let thread = |number: u32| {
            scope.spawn(move || {
                for round in 0..50 {
                    let port = 1 + number * 100 + round;
                    let program = compile(&format!("port {port}"), ETHERNET, 64, true).unwrap();
                    assert!(program.iter().any(|instruction| instruction.k == port));
                }
            })
        };
        let threads: Vec<_> = (0..4).map(thread).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn the_judge_judges() {
    let (accepting, open_ended) = ([raw(6, 0, 0, 7)], [raw(4, 0, 0, 1)]);
    match verdict(&accepting, &[1, 2], 2) {
        Err(error @ PcapError::NotInstalled { .. }) => skip(error),
        result => {
            assert_eq!(result.unwrap(), Some(7));
            assert_eq!(verdict(&open_ended, &[1, 2], 2).unwrap(), None, "no return");
            assert_eq!(verdict(&[], &[1, 2], 2).unwrap(), None, "no instructions");
            let length = [raw(128, 0, 0, 0), raw(22, 0, 0, 0)];
            assert_eq!(verdict(&length, &[1, 2], 60).unwrap(), Some(60));
        }
    }
}

#[test]
fn a_missing_library_is_named_with_the_mend() {
    let error = Library::load(&[c"libburstline-none.so.1"]).err().unwrap();
    let text = error.to_string();
    assert!(text.contains("libburstline-none.so.1"), "{text}");
    assert!(text.contains("apt-get install libpcap0.8"), "{text}");
    assert!(text.contains("tcpdump -y EN10MB -ddd"), "{text}");
}

#[test]
fn the_first_library_that_is_there_is_taken() {
    let error = Library::load(&[c"libburstline-none.so.1", c"libc.so.6"]).err().unwrap();
    let PcapError::Function { library, function } = error else { panic!("{error}") };
    assert_eq!((library.as_str(), function), ("libc.so.6", "pcap_open_dead"));
}
