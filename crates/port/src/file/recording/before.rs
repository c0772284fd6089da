//! How many packets of a recording are in the files before one, in the comment of its section.
//!
//! A file without segments has no other place for it that all readers pass over, and that people
//! can see. A resumed recording needs only the newest file to know the number of its next packet.

use super::runs::RunPlace;

/// The words in front of the number. What else the comment says follows behind `; `.
const WORDS: &str = "packets before this file: ";

/// The words in front of the number of the run, at the end of the comment, and its digits.
const RUN_WORDS: &str = "; run ";
const RUN_DIGITS: usize = 16;

/// The first bytes of a section header in our byte order, from its type to the code of its first
/// option. Source: draft-ietf-opsawg-pcapng, section 4.1; option 1 is a comment.
const HEAD_BYTES: usize = 26;
const SECTION: [u8; 4] = [0x0A, 0x0D, 0x0D, 0x0A];
const LITTLE_ENDIAN: [u8; 4] = [0x4D, 0x3C, 0x2B, 0x1A];
const COMMENT: [u8; 2] = [1, 0];

/// The most digits of a number.
const DIGITS: usize = 20;

/// The highest number that is believed, as in the trailer of a segment.
const MOST_PACKETS: u64 = 1 << 56;

/// The first bytes of a file that [`packets_before`] needs.
pub(in super::super) const START_BYTES: usize = HEAD_BYTES + 2 + WORDS.len() + DIGITS + 1;

/// Returns the comment of a file that has `packets` of its recording before it. `more` is what else
/// it says; it may be empty.
pub(in super::super) fn comment(packets: u64, more: &str) -> String {
    let separator = if more.is_empty() { "" } else { "; " };
    format!("{WORDS}{packets}{separator}{more}")
}

/// Returns a comment of a file of this run.
pub(in super::super) fn comment_in_run(comment: &str, run: u64) -> String {
    format!("{comment}{RUN_WORDS}{run:0RUN_DIGITS$x}")
}

/// Returns how many first bytes of a file [`run_place`] needs, as far as `start` tells.
pub(in super::super) fn run_place_bytes(start: &[u8]) -> usize {
    let length = start.get(HEAD_BYTES..).and_then(|option| option.first_chunk::<2>());
    match length.filter(|_| packets_before(start).is_some()) {
        Some(length) => START_BYTES.max(HEAD_BYTES + 2 + usize::from(u16::from_le_bytes(*length))),
        None => START_BYTES,
    }
}

/// Returns the place of a file in its run, if the comment of a file that begins with these bytes
/// says both.
pub(in super::super) fn run_place(start: &[u8]) -> Option<RunPlace> {
    let packets_before = packets_before(start)?;
    let (length, value) = start.get(HEAD_BYTES..)?.split_first_chunk::<2>()?;
    let comment = str::from_utf8(value.get(..usize::from(u16::from_le_bytes(*length)))?).ok()?;
    let (_, run) = comment.rsplit_once(RUN_WORDS)?;
    let is_run = run.len() == RUN_DIGITS && run.bytes().all(|byte| byte.is_ascii_hexdigit());
    let run = u64::from_str_radix(run, 16).ok().filter(|_| is_run)?;
    Some(RunPlace { run, packets_before })
}

/// Returns the number in the comment of a file that begins with these bytes. `None` if it has none,
/// as in files of earlier versions and other programs.
pub(in super::super) fn packets_before(start: &[u8]) -> Option<u64> {
    let (head, option) = start.split_first_chunk::<HEAD_BYTES>()?;
    let is_ours = head[..4] == SECTION && head[8..12] == LITTLE_ENDIAN && head[24..] == COMMENT;
    let (length, value) = option.split_first_chunk::<2>()?;
    let length = usize::from(u16::from_le_bytes(*length)).min(WORDS.len() + DIGITS + 1);
    let number = value.get(..length).filter(|_| is_ours)?.strip_prefix(WORDS.as_bytes())?;
    let digits = number.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = number.split_at(digits);
    let is_whole = rest.first().is_none_or(|byte| *byte == b';');
    let packets = str::from_utf8(digits).ok()?.parse::<u64>().ok()?;
    Some(packets).filter(|packets| is_whole && *packets <= MOST_PACKETS)
}

#[cfg(test)]
mod tests {
    use burstline_wire::files::{PcapngEncoder, SectionDescription};
    use burstline_wire::headers::LinkType;

    use super::*;

    fn section(comment: &str) -> Vec<u8> {
        let mut bytes = vec![0; 8192];
        let mut encoder = PcapngEncoder::new(LinkType::ETHERNET, 0);
        let section = SectionDescription { comment, os: "linux", ..Default::default() };
        let end = encoder.section(&mut bytes, &section).unwrap();
        bytes.truncate(end);
        bytes
    }

    #[test]
    fn a_comment_says_how_many_packets_are_before() {
        let long = "é".repeat(1000);
        for packets in [0, 7, 3010, MOST_PACKETS] {
            for more in ["", "resumes after x", long.as_str()] {
                let bytes = section(&comment(packets, more));
                assert_eq!(packets_before(&bytes), Some(packets), "{packets} {more}");
                let start = &bytes[..bytes.len().min(START_BYTES)];
                assert_eq!(packets_before(start), Some(packets), "{packets} {more}");
            }
        }
    }

    #[test]
    fn a_comment_ends_with_its_run() {
        let long = "é".repeat(1000);
        for (run, more) in [(0, ""), (7, "resumes after x; run away"), (u64::MAX, long.as_str())] {
            let bytes = section(&comment_in_run(&comment(12, more), run));
            let place = RunPlace { run, packets_before: 12 };
            let needed = run_place_bytes(&bytes[..START_BYTES]);
            assert_eq!(run_place(&bytes[..needed]), Some(place), "{more}");
            assert_eq!(run_place(&bytes[..needed - 1]), None, "{more}");
            assert_eq!(packets_before(&bytes), Some(12));
        }
        for more in ["", "run 0123456789abcdef0", "run 0123456789abcdeg", "run +123456789abcdef"] {
            assert_eq!(run_place(&section(&comment(12, more))), None, "{more}");
        }
        assert_eq!(run_place(&section("x; run 0123456789abcdef")), None);
        assert_eq!(run_place_bytes(&[]), START_BYTES);
    }

    #[test]
    fn other_comments_say_nothing() {
        let numbers = ["", "x", "-1", "7x", "72057594037927937", "18446744073709551616", "7 8"];
        let wrong = numbers.map(|number| format!("{WORDS}{number}"));
        let others = ["", "resumes after packets before this file: 7"].map(str::to_owned);
        for comment in wrong.iter().chain(&others) {
            assert_eq!(packets_before(&section(comment)), None, "{comment}");
        }
        let good = section(&comment(12, ""));
        for end in 0..HEAD_BYTES + 2 + WORDS.len() + 2 {
            assert_eq!(packets_before(&good[..end]), None, "{end}");
        }
        let of_other_order = [&good[..8], &[0x1A, 0x2B, 0x3C, 0x4D], &good[12..]].concat();
        assert_eq!(packets_before(&of_other_order), None);
        assert_eq!(packets_before(b"\xd4\xc3\xb2\xa1 a classic file, which has no comment"), None);
    }
}
