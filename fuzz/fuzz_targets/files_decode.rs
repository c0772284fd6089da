//! Any bytes as a capture file: decoding ends, stays inside the chunk, and says the same whether
//! the file is seen at once or a few bytes at a time.
//!
//! An input is a byte that says how the file is shown (see `Shown`) and the file.
#![no_main]

use burstline_wire::files::{Damage, Decoder, MAX_NEED, Record, Step};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&how, file)) = data.split_first() else {
        return;
    };
    let shown = Shown::new(how);
    let said = decode(shown.decoder(), file, shown.bytes);
    // A live decoder may deliver the last record of a chunk before it has seen what follows it.
    if !shown.is_live {
        assert_eq!(said, decode(shown.decoder(), file, file.len()));
    }
});

/// How a file is shown to the decoder: the first byte of an input.
struct Shown {
    /// By a pipe that may pause (the top bit)?
    is_live: bool,
    /// New bytes at a time, in `[1, 128]` (the other bits).
    bytes: usize,
}

impl Shown {
    fn new(how: u8) -> Self {
        Self { is_live: how >= 128, bytes: usize::from(how % 128) + 1 }
    }

    fn decoder(&self) -> Decoder {
        if self.is_live { Decoder::live() } else { Decoder::new() }
    }
}

/// What the decoder says, but for what depends on the chunk: requests for more, where in the chunk
/// a packet lies, how much it saw of a file that it refused.
#[derive(Debug, PartialEq)]
enum Said {
    Packet(Record, Vec<u8>),
    Damage(Damage),
    Refused,
}

/// Decodes `file`, shown `bytes` at a time or as many as the decoder asks for.
fn decode(mut decoder: Decoder, file: &[u8], bytes: usize) -> Vec<Said> {
    let (mut start, mut end) = (0, bytes.min(file.len()));
    let mut said = Vec::new();
    loop {
        let (chunk, at_end) = (&file[start..end], end == file.len());
        let mut position = 0;
        let step = decoder.next(chunk, &mut position, at_end);
        assert!(position <= chunk.len(), "position {position} of {}", chunk.len());
        start += position;
        assert_eq!(decoder.file_offset(), start as u64);
        match step {
            Step::Packet(record) => {
                assert!(position > 0, "I1");
                assert!((record.interface as usize) < decoder.interfaces().len());
                let packet = &chunk[record.offset..][..record.captured_length as usize];
                said.push(Said::Packet(Record { offset: 0, ..record }, packet.to_vec()));
            }
            Step::NeedMore { bytes: needed } => {
                assert!(!at_end && needed > end - start && needed <= MAX_NEED, "I1, I2: {needed}");
                end = (start + needed.max(bytes)).min(file.len());
            }
            Step::End => {
                let mut behind = chunk.len();
                assert_eq!(decoder.next(chunk, &mut behind, at_end), Step::End);
                return said;
            }
            Step::Damage(damage) => said.push(Said::Damage(damage)),
            Step::Refused(_) => said.push(Said::Refused),
        }
        // Each answer but a request for more passes bytes, so this many is too many.
        assert!(said.len() <= file.len() + 2, "I1: decoding does not end");
    }
}
