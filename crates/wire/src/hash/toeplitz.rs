//! The Toeplitz hash of receive-side scaling, computed by table.
//!
//! By definition each set bit `i` of the input XORs the 32 key bits from bit `i` on into the
//! result. So the contribution of the byte at position `p` depends only on `p` and its value. There
//! is one table of 256 sums for each of the 36 positions. The hash is one lookup per byte.
//!
//! Source: Microsoft, "RSS Hashing Functions" and "Verifying the RSS Hash Calculation".

/// Bytes of a key.
pub const KEY_BYTES: usize = 40;

/// Longest input: two IPv6 addresses and two ports. The 32-bit window of its last bit is the last
/// one inside the key.
pub const INPUT_BYTES_MAX: usize = 36;

const _: () = assert!(INPUT_BYTES_MAX + 4 == KEY_BYTES);

/// The key that Microsoft published with the verification vectors; many NICs use it by default.
pub const MICROSOFT_KEY: [u8; KEY_BYTES] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0,
    0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c,
    0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
];

/// A key that repeats every 16 bits. Swapping two addresses or two ports moves them by a multiple
/// of 16 bits, so it changes nothing. The price: a hash's upper half repeats its lower.
///
/// Source: Woo and Park, "Scalable TCP Session Monitoring with Symmetric Receive-side Scaling",
/// 2012.
pub const SYMMETRIC_KEY: [u8; KEY_BYTES] = {
    let mut key = [0x6d; KEY_BYTES];
    let mut at = 1;
    while at < KEY_BYTES {
        key[at] = 0x5a;
        at += 2;
    }
    key
};

/// A Toeplitz hash with its key expanded into 36 tables of 1 KiB; IPv4 touches 12 of them.
pub struct Toeplitz {
    tables: Box<[[u32; 256]; INPUT_BYTES_MAX]>,
}

impl Toeplitz {
    /// Expands `key`.
    ///
    /// Cost: one allocation of 36 KiB and some 9,000 XORs.
    #[must_use]
    pub fn new(key: &[u8; KEY_BYTES]) -> Self {
        let mut tables = Box::new([[0; 256]; INPUT_BYTES_MAX]);
        for (table, key_bytes) in tables.iter_mut().zip(key.windows(5)) {
            fill(table, key_bytes);
        }
        Self { tables }
    }

    /// Returns the hash of `input`; more than [`INPUT_BYTES_MAX`] bytes do not compile.
    ///
    /// Cost: `N` independent loads and XORs.
    #[inline]
    #[must_use]
    pub fn hash<const N: usize>(&self, input: &[u8; N]) -> u32 {
        const { assert!(N <= INPUT_BYTES_MAX) };
        let sums = self.tables.iter().zip(input).map(|(table, byte)| table[usize::from(*byte)]);
        sums.fold(0, |hash, sum| hash ^ sum)
    }
}

/// Fills in the sums for all values of one byte, from the five key bytes at its position.
fn fill(table: &mut [u32; 256], key_bytes: &[u8]) {
    let bits = key_bytes.iter().fold(0u64, |bits, byte| bits << 8 | u64::from(*byte));
    for value in 1..256usize {
        // The lowest set bit's window XOR the sum of the other bits, which is already known. Bit 7
        // of a byte comes first: its window starts at the first key bit, 8 above the bottom.
        let window = (bits >> (value.trailing_zeros() + 1)) as u32;
        table[value] = table[value & (value - 1)] ^ window;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The definition, bit by bit.
    fn by_definition(key: &[u8; KEY_BYTES], input: &[u8]) -> u32 {
        let key_bit = |i: usize| u32::from(key[i / 8] >> (7 - i % 8) & 1);
        let set = (0..input.len() * 8).filter(|i| input[i / 8] >> (7 - i % 8) & 1 == 1);
        set.fold(0, |hash, i| hash ^ (i..i + 32).fold(0, |window, k| window << 1 | key_bit(k)))
    }

    proptest! {
        #[test]
        fn tables_agree_with_the_definition(
            key: [u8; KEY_BYTES], short: [u8; 8], long: [u8; 32], ports: [u8; 4],
        ) {
            let toeplitz = Toeplitz::new(&key);
            let full: [u8; 36] = [&long[..], &ports].concat().try_into().unwrap();
            prop_assert_eq!(toeplitz.hash(&short), by_definition(&key, &short));
            prop_assert_eq!(toeplitz.hash(&full), by_definition(&key, &full));
        }
    }
}
