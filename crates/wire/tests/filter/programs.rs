//! Any program is either refused or ends, on any packet.

use crate::build::{Random, random_program};
use burstline_wire::filter::{Instruction, Program};
use proptest::prelude::*;

fn instruction() -> impl Strategy<Value = Instruction> {
    // Mostly codes of one byte, small jumps and small constants: most others are refused.
    let code = prop_oneof![9 => 0_u16..0x100, 1 => any::<u16>()];
    let skip = || prop_oneof![4 => 0_u8..4, 1 => any::<u8>()];
    let k = prop_oneof![4 => 0_u32..64, 1 => any::<u32>()];
    (code, skip(), skip(), k).prop_map(|(code, jt, jf, k)| Instruction { code, jt, jf, k })
}

proptest! {
    #[test]
    fn random_instructions_are_refused_or_end(
        mut instructions in prop::collection::vec(instruction(), 0..12),
        packet in prop::collection::vec(any::<u8>(), 0..80),
        original_length: u32,
    ) {
        instructions.push(Instruction { code: 0x16, jt: 0, jf: 0, k: 0 });
        if let Ok(program) = Program::new(instructions) {
            let verdict = program.run(&packet, original_length);
            prop_assert_eq!(program.run(&packet, original_length), verdict);
        }
    }

    #[test]
    fn right_programs_end_and_print_themselves(
        seed: u64,
        packet in prop::collection::vec(any::<u8>(), 0..80),
    ) {
        let program = random_program(&mut Random(seed));
        let printed = program.to_string();
        let one_line = printed.replace('\n', ",");
        for text in [printed, one_line] {
            let read = Program::from_tcpdump_ddd(&text).unwrap();
            prop_assert_eq!(&read, &program);
            prop_assert_eq!(read.run(&packet, 1), program.run(&packet, 1));
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[0-9x{}, \n-]{0,60}|.{0,60}") {
        if let Ok(program) = Program::from_tcpdump_ddd(&text) {
            let again = Program::from_tcpdump_ddd(&program.to_string());
            prop_assert_eq!(again, Ok(program));
        }
    }
}
