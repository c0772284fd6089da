//! Packets of many kinds and random programs, for the tests of filters.
#![allow(dead_code)] // Each test crate uses a part.

use burstline_wire::filter::{Instruction, Program};

/// Steele, Lea and Flood's SplitMix64: the same numbers everywhere.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number in `[0, end)`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

/// All opcodes. Every jump, division and memory load below is made valid.
const CODES: [u16; 51] = [
    0x20, 0x28, 0x30, 0x40, 0x48, 0x50, 0x00, 0x80, 0x60, 0x01, 0x81, 0x61, 0xb1, 0x02, 0x03, 0x04,
    0x0c, 0x14, 0x1c, 0x24, 0x2c, 0x34, 0x3c, 0x44, 0x4c, 0x54, 0x5c, 0x64, 0x6c, 0x74, 0x7c, 0x84,
    0x94, 0x9c, 0xa4, 0xac, 0x05, 0x15, 0x1d, 0x25, 0x2d, 0x35, 0x3d, 0x45, 0x4d, 0x06, 0x16, 0x07,
    0x87, 0x16, 0x15,
];

/// Returns a program that the verifier has to accept: all memory stored, `[1, 60]` random
/// instructions, then A is returned.
pub(crate) fn random_program(random: &mut Random) -> Program {
    let mut instructions = vec![Instruction { code: 0x80, jt: 0, jf: 0, k: 0 }];
    let plain = |code, k| Instruction { code, jt: 0, jf: 0, k };
    instructions.extend((0..16).map(|word| plain(0x02, word)));
    let count = 1 + random.below(60);
    for left in (0..count).rev() {
        let code = random.pick(&CODES);
        let forward = (left + 1).min(256);
        let k = match code {
            0x60 | 0x61 | 0x02 | 0x03 => random.below(16) as u32,
            0x20 | 0x28 | 0x30 | 0x40 | 0x48 | 0x50 | 0xb1 => match random.below(12) {
                0 => random.next() as u32 >> 1,
                _ => random.below(70) as u32,
            },
            0x34 | 0x94 => random.next() as u32 | 1,
            0x64 | 0x74 => random.below(32) as u32,
            0x05 => random.below(forward) as u32,
            _ => match random.below(6) {
                0 => random.next() as u32,
                // An index that only a sum modulo 2^32 would move back into the packet.
                1 => (random.below(64) as u32).wrapping_neg(),
                _ => random.below(256) as u32,
            },
        };
        let (jt, jf) = (random.below(forward) as u8, random.below(forward) as u8);
        instructions.push(Instruction { code, jt, jf, k });
    }
    instructions.push(plain(0x16, 0));
    Program::new(instructions).unwrap()
}

/// Returns the packet with some of its bytes changed, or truncated or extended.
pub(crate) fn mutated(random: &mut Random, packet: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    for _ in 0..random.below(4) {
        let at = random.below(packet.len());
        packet[at] = match random.below(3) {
            0 => random.next() as u8,
            1 => packet[at] ^ (1 << random.below(8)),
            _ => random.pick(&[0, 1, 6, 17, 0x45, 0x60, 0x81, 0x86, 0xdd, 0xff]),
        };
    }
    match random.below(6) {
        0 => packet.truncate(random.below(packet.len() + 1)),
        1 => packet.extend((0..random.below(40)).map(|byte| byte as u8)),
        _ => {}
    }
    packet
}

/// Returns random bytes.
pub(crate) fn noise(random: &mut Random) -> Vec<u8> {
    let bytes = random.below(120);
    (0..bytes).map(|_| random.next() as u8).collect()
}
