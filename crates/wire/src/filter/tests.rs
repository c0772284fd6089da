use super::opcode::*;
use super::*;

fn of(code: u16, jt: u8, jf: u8, k: u32) -> Instruction {
    Instruction { code, jt, jf, k }
}

fn plain(code: u16, k: u32) -> Instruction {
    of(code, 0, 0, k)
}

const PACKET: [u8; 8] = [0x45, 0x81, 0x02, 0x03, 0xf4, 0x05, 0x06, 0x07];

/// Returns the accumulator after `steps` over [`PACKET`], with 60 bytes on the wire.
fn accumulator(steps: &[Instruction]) -> u32 {
    let program = [steps, &[plain(RET | A, 0)]].concat();
    Program::new(program).unwrap().run(&PACKET, 60)
}

/// Returns X after `steps`, copied into A at the end.
fn index(steps: &[Instruction]) -> u32 {
    accumulator(&[steps, &[plain(MISC | TXA, 0)]].concat())
}

fn refusal(instructions: &[Instruction]) -> FilterError {
    Program::new(instructions.to_vec()).unwrap_err()
}

#[test]
fn loads_are_big_endian_and_stay_inside() {
    for (size, bytes, first) in [(W, 4, 0x4581_0203), (H, 2, 0x4581), (B, 1, 0x45)] {
        assert_eq!(accumulator(&[plain(LD | size | ABS, 0)]), first);
        let one = plain(LDX | W | IMM, 1);
        for at in 0..10 {
            let direct = accumulator(&[plain(LD | size | ABS, at)]);
            assert_eq!(direct > 0, at + bytes <= 8, "{bytes} bytes at {at}");
            if at > 0 {
                let indirect = accumulator(&[one, plain(LD | size | IND, at - 1)]);
                assert_eq!(indirect, direct);
            }
        }
        for far in [0x7fff_ffff, 0x7fff_fffe] {
            assert_eq!(accumulator(&[plain(LD | size | ABS, far)]), 0);
        }
        // Offsets do not wrap around: the sum is 2^32 or more.
        let minus_one = plain(LDX | W | IMM, u32::MAX);
        assert_eq!(accumulator(&[minus_one, plain(LD | size | IND, 1)]), 0);
    }
}

#[test]
fn a_failed_load_rejects_whatever_comes_after_it() {
    let program = vec![plain(LD | B | ABS, 8), plain(RET | K, 5)];
    assert_eq!(Program::new(program).unwrap().run(&PACKET, 60), 0);
}

#[test]
fn constants_lengths_and_memory() {
    assert_eq!(accumulator(&[plain(LD | W | IMM, 9)]), 9);
    assert_eq!(accumulator(&[plain(LD | W | LEN, 0)]), 60);
    assert_eq!(index(&[plain(LDX | W | IMM, 9)]), 9);
    assert_eq!(index(&[plain(LDX | W | LEN, 0)]), 60);
    assert_eq!(index(&[plain(LDX | B | MSH, 0)]), 20);
    assert_eq!(index(&[plain(LDX | B | MSH, 4)]), 16, "the high half is left out");
    assert_eq!(index(&[plain(LDX | B | MSH, 8)]), 0);
    let (nine, four) = (plain(LD | W | IMM, 9), plain(LDX | W | IMM, 4));
    for word in 0..16 {
        let both = [nine, four, plain(ST, word), plain(STX, 15 - word)];
        assert_eq!(accumulator(&[&both[..], &[plain(LD | W | MEM, word)]].concat()), 9);
        assert_eq!(index(&[&both[..], &[plain(LDX | W | MEM, 15 - word)]].concat()), 4);
    }
    assert_eq!(index(&[nine, plain(MISC | TAX, 0)]), 9);
    assert_eq!(accumulator(&[nine, four, plain(MISC | TXA, 0)]), 4);
}

#[test]
fn arithmetic_wraps_around() {
    const TOP: u32 = 1 << 31;
    for (operator, a, operand, result) in [
        (ADD, u32::MAX, 2, 1),
        (SUB, 1, 3, u32::MAX - 1),
        (MUL, 0x1_0001, 0x1_0001, 0x2_0001),
        (DIV, 17, 5, 3),
        (MOD, 17, 5, 2),
        (OR, 0b1100, 0b1010, 0b1110),
        (AND, 0b1100, 0b1010, 0b1000),
        (XOR, 0b1100, 0b1010, 0b0110),
        (LSH, 3, 31, TOP),
        (RSH, TOP, 31, 1),
    ] {
        let load = plain(LD | W | IMM, a);
        assert_eq!(accumulator(&[load, plain(ALU | operator | K, operand)]), result);
        let operand = plain(LDX | W | IMM, operand);
        assert_eq!(accumulator(&[load, operand, plain(ALU | operator | X, 0)]), result);
    }
    assert_eq!(accumulator(&[plain(LD | W | IMM, 1), plain(ALU | NEG, 0)]), u32::MAX);
}

#[test]
fn what_an_index_can_do_that_a_constant_may_not() {
    let seven = plain(LD | W | IMM, 7);
    for (operator, operand, result) in
        [(DIV, 0, 0), (MOD, 0, 0), (LSH, 32, 0), (RSH, 32, 0), (LSH, u32::MAX, 0)]
    {
        let steps = [seven, plain(LDX | W | IMM, operand), plain(ALU | operator | X, 0)];
        assert_eq!(accumulator(&steps), result);
        // A division by 0 rejects the packet; an over-wide shift only leaves 0.
        let after = [&steps[..], &[plain(LD | W | IMM, 5)]].concat();
        assert_eq!(accumulator(&after), if operand == 0 { 0 } else { 5 });
    }
}

#[test]
fn jumps_take_the_side_of_their_test() {
    for (test, a, operand, holds) in [
        (JEQ, 5, 5, true),
        (JEQ, 5, 6, false),
        (JGT, u32::MAX, 1, true),
        (JGT, 5, 5, false),
        (JGE, 5, 5, true),
        (JGE, 4, 5, false),
        (JSET, 6, 2, true),
        (JSET, 6, 9, false),
    ] {
        let (load, operand_x) = (plain(LD | W | IMM, a), plain(LDX | W | IMM, operand));
        let sides = [plain(RET | K, 100), plain(RET | K, 200), plain(RET | K, 300)];
        let with_k = [&[load, of(JMP | test | K, 1, 2, operand)], &sides[..]].concat();
        let with_x = [&[load, operand_x, of(JMP | test | X, 1, 2, 0)], &sides[..]].concat();
        for program in [with_k, with_x] {
            let verdict = Program::new(program).unwrap().run(&PACKET, 60);
            assert_eq!(verdict, if holds { 200 } else { 300 });
        }
    }
    let over = vec![plain(JMP | JA, 1), plain(RET | K, 1), plain(RET | K, 2)];
    assert_eq!(Program::new(over).unwrap().run(&PACKET, 60), 2);
}

#[test]
fn a_program_has_a_length_and_an_end() {
    let accept = plain(RET | K, 1);
    assert_eq!(refusal(&[]), FilterError::Length { instructions: 0 });
    let tax = plain(MISC | TAX, 0);
    assert_eq!(refusal(&[accept, tax]), FilterError::NoReturn { at: 1, code: MISC | TAX });
    assert!(Program::new(vec![accept; INSTRUCTIONS_MAX]).is_ok());
    let instructions = INSTRUCTIONS_MAX + 1;
    assert_eq!(refusal(&vec![accept; instructions]), FilterError::Length { instructions });
}

#[test]
fn exactly_the_opcodes_of_the_kernel_are_known() {
    // Source: chk_code_allowed, net/core/filter.c.
    let known = [
        0x20, 0x28, 0x30, 0x40, 0x48, 0x50, 0x00, 0x80, 0x60, // ld
        0x01, 0x81, 0x61, 0xb1, 0x02, 0x03, // ldx, st, stx
        0x04, 0x0c, 0x14, 0x1c, 0x24, 0x2c, 0x34, 0x3c, 0x44, 0x4c, 0x54, 0x5c, 0x64, 0x6c, 0x74,
        0x7c, 0x84, 0x94, 0x9c, 0xa4, 0xac, // alu
        0x05, 0x15, 0x1d, 0x25, 0x2d, 0x35, 0x3d, 0x45, 0x4d, // jmp
        0x06, 0x16, 0x07, 0x87, // ret, misc
    ];
    // Every word of memory is stored first, so that loads are valid.
    let stores: Vec<_> = (0..16).map(|word| plain(ST, word)).collect();
    for code in 0..=u16::MAX {
        let program = [&stores[..], &[of(code, 0, 0, 1), plain(RET | K, 1), plain(RET | K, 2)]];
        match Program::new(program.concat()) {
            Ok(_) => assert!(known.contains(&code), "{code:#x} accepted"),
            Err(error) => {
                assert_eq!(error, FilterError::Opcode { at: 16, code });
                assert!(!known.contains(&code), "{code:#x} refused");
            }
        }
    }
}

#[test]
fn jumps_stay_inside_and_go_forward() {
    let accept = plain(RET | K, 1);
    let outside = |target| FilterError::JumpOutside { at: 0, target, last: 1 };
    assert!(Program::new(vec![of(JMP | JEQ, 0, 0, 0), accept]).is_ok());
    assert_eq!(refusal(&[of(JMP | JEQ, 1, 0, 0), accept]), outside(2));
    assert_eq!(refusal(&[of(JMP | JGT | X, 0, 255, 0), accept]), outside(256));
    assert_eq!(refusal(&[plain(JMP | JA, 1), accept]), outside(2));
    assert_eq!(refusal(&[plain(JMP | JA, 0x7fff_ffff), accept]), outside(0x8000_0000));
    let back = FilterError::JumpBack { at: 0, distance: 1 };
    assert_eq!(refusal(&[plain(JMP | JA, u32::MAX), accept]), back);
}

#[test]
fn constants_are_checked() {
    let refused = |code, k| refusal(&[plain(code, k), plain(RET | K, 1)]);
    for code in [ST, STX, LD | W | MEM, LDX | W | MEM] {
        assert_eq!(refused(code, 16), FilterError::MemoryWord { at: 0, word: 16 });
        assert_eq!(refused(code, 256), FilterError::MemoryWord { at: 0, word: 256 });
    }
    for code in [ALU | DIV | K, ALU | MOD | K] {
        assert_eq!(refused(code, 0), FilterError::DivisionByZero { at: 0 });
    }
    for code in [ALU | LSH | K, ALU | RSH | K] {
        assert_eq!(refused(code, 32), FilterError::Shift { at: 0, bits: 32 });
    }
    for code in [LD | W | ABS, LD | H | ABS, LD | B | ABS, LD | B | IND, LDX | B | MSH] {
        for offset in [-0x1000 + 48, -0x20_0000, -1, i32::MIN] {
            assert_eq!(refused(code, offset as u32), FilterError::KernelOnly { at: 0, offset });
        }
    }
    let text = refused(LD | B | ABS, (-4048_i32) as u32).to_string();
    assert!(text.contains("instruction 0: loads from -4048"), "{text}");
    assert!(text.contains("tcpdump -y EN10MB -ddd"), "{text}");
}

#[test]
fn memory_is_stored_on_every_way_before_it_is_loaded() {
    let (store, load) = (plain(ST, 3), plain(LD | W | MEM, 3));
    let accept = plain(RET | A, 0);
    let unset = |at| FilterError::MemoryUnset { at, word: 3 };
    assert_eq!(refusal(&[load, accept]), unset(0));
    assert_eq!(refusal(&[plain(ST, 2), load, accept]), unset(1));
    assert!(Program::new(vec![store, load, accept]).is_ok());
    // One path skips the store: the jump's true side.
    assert_eq!(refusal(&[of(JMP | JEQ, 1, 0, 0), store, load, accept]), unset(2));
    assert_eq!(refusal(&[plain(JMP | JA, 1), store, load, accept]), unset(2));
    // Both paths store.
    let either = [of(JMP | JEQ, 2, 0, 0), store, plain(JMP | JA, 1), plain(STX, 3), load, accept];
    assert!(Program::new(either.to_vec()).is_ok());
}

/// Returns the program after the test for a removed tag, which only the kernel can answer.
fn behind_the_question(instructions: &[Instruction], stripped: u32) -> Program {
    // As `tcpdump -ddd` numbers them: ldb [SKF_AD_VLAN_TAG_PRESENT]; jeq #0; ret.
    let question = [of(48, 0, 0, 0xffff_f030), of(21, 1, 0, 0), of(6, 0, 0, stripped)];
    assert_eq!(instructions[..3], question);
    Program::new(instructions[3..].to_vec()).unwrap()
}

#[test]
fn a_packet_socket_gets_the_program_behind_a_question() {
    // ldb [8]: outside of the packet; the rest accepts everything.
    let program = Program::new(vec![plain(LD | B | ABS, 8), plain(RET | K, 5)]).unwrap();
    let main = behind_the_question(&program.for_packet_socket(96).unwrap(), u32::MAX);
    let rest = behind_the_question(&program.complement_for_packet_socket().unwrap(), 0);
    let nine = [PACKET.as_slice(), &[1]].concat();
    assert_eq!((main.run(&PACKET, 8), rest.run(&PACKET, 8)), (0, 1));
    assert_eq!((main.run(&nine, 9), rest.run(&nine, 9)), (96, 0));
}

#[test]
fn what_a_packet_socket_cannot_have_is_refused() {
    let longest = Program::new(vec![plain(RET | K, 0); INSTRUCTIONS_MAX - 12]).unwrap();
    let error = FilterError::Length { instructions: INSTRUCTIONS_MAX - 7 };
    assert_eq!(longest.for_packet_socket(1), Err(error));
    for operator in [DIV, MOD] {
        let program = vec![plain(ALU | operator | X, 0), plain(RET | K, 0)];
        let error = Program::new(program).unwrap().complement_for_packet_socket().unwrap_err();
        assert_eq!(error, FilterError::DivisionByIndex { at: 0 });
    }
}

#[test]
fn jumps_that_become_too_far_arrive_all_the_same() {
    // 200 loads, each of which becomes three instructions, between a test and its target.
    for (first, wanted) in [(0x45, 1), (0x46, 0)] {
        let mut program = vec![plain(LD | B | ABS, 0), of(JMP | JEQ, 200, 0, first)];
        program.extend([plain(LD | B | ABS, 1); 199]);
        program.extend([plain(RET | K, 0), plain(RET | K, 7)]);
        let program = Program::new(program).unwrap();
        let main = behind_the_question(&program.for_packet_socket(1).unwrap(), u32::MAX);
        let rest = behind_the_question(&program.complement_for_packet_socket().unwrap(), 0);
        assert_eq!((main.run(&PACKET, 8), rest.run(&PACKET, 8)), (wanted, 1 - wanted));
    }
}

const IP_ONLY: &str = "4\n40 0 0 12\n21 0 1 2048\n6 0 0 262144\n6 0 0 0";

#[test]
fn all_printed_forms_are_the_same_program() {
    let program = Program::from_tcpdump_ddd(IP_ONLY).unwrap();
    assert_eq!(program.instructions()[1], of(JMP | JEQ | K, 0, 1, 2048));
    assert_eq!(program.to_string(), IP_ONLY);
    for text in [
        "4\r\n40 0 0 12\r\n21 0 1 2048\r\n6 0 0 262144\r\n6 0 0 0\r\n",
        "40 0 0 12\n21 0 1 2048\n6 0 0 262144\n6 0 0 0\n",
        "4,40 0 0 12,21 0 1 2048,6 0 0 262144,6 0 0 0,",
        " 4 , 40 0 0 12 , 21 0 1 2048 , 6 0 0 262144 , 6 0 0 0 ",
        "{ 0x28, 0, 0, 0x0000000c },\n{ 0x15, 0, 1, 0x00000800 },\n{ 0x6, 0, 0, 0x00040000 },\n\
         { 0x6, 0, 0, 0x00000000 },\n",
        "{0x28,0,0,12},{21,0,1,2048},{6,0,0,262144},{6,0,0,0}",
    ] {
        assert_eq!(Program::from_tcpdump_ddd(text).as_ref(), Ok(&program), "{text}");
    }
}

#[test]
fn wrong_text_is_named() {
    let error = |text| Program::from_tcpdump_ddd(text).unwrap_err();
    let wrong = |at, text: &str| FilterError::Text { at, text: text.to_owned() };
    assert_eq!(error(""), FilterError::Length { instructions: 0 });
    assert_eq!(error("0"), FilterError::Length { instructions: 0 });
    assert_eq!(error("2\n6 0 0 0"), FilterError::Count { stated: 2, found: 1 });
    assert_eq!(
        error("9999999999\n6 0 0 0"),
        FilterError::Count { stated: 9_999_999_999, found: 1 }
    );
    assert_eq!(error("udp port 53"), wrong(0, "udp port 53"));
    assert_eq!(error("udp"), wrong(0, "udp"));
    assert_eq!(error("1\n6 0 0"), wrong(0, "6 0 0"));
    assert_eq!(error("6 0 0 0\n6 0 0 0 0"), wrong(1, "6 0 0 0 0"));
    assert_eq!(error("6 0 256 0"), wrong(0, "6 0 256 0"));
    assert_eq!(error("65536 0 0 0"), wrong(0, "65536 0 0 0"));
    assert_eq!(error("6 0 0 4294967296"), wrong(0, "6 0 0 4294967296"));
    assert_eq!(error("6 0 0 -1"), wrong(0, "6 0 0 -1"));
    assert_eq!(error("{ 6, 0, 0, 0 } x"), wrong(1, "x"));
    assert_eq!(error(&"é".repeat(99)), wrong(0, &"é".repeat(40)));
}
