//! Lists of frame sizes.

/// The frame sizes of RFC 2544, section 9.1, and 768.
const STANDARD: [u32; 8] = [64, 128, 256, 512, 768, 1024, 1280, 1518];
/// The frame sizes of Wang, He and Wang, Comparison of High-Performance Packet Processing
/// Frameworks on NUMA, whose generator could not send 1518.
const NUMA: [u32; 8] = [64, 128, 256, 512, 768, 1024, 1280, 1500];

/// The union of both lists.
const ALL: [u32; 9] = [64, 128, 256, 512, 768, 1024, 1280, 1500, 1518];

/// The shortest and longest frames, FCS included: room for a mark, and a jumbo frame.
const SIZES: std::ops::RangeInclusive<u32> = 64..=9018;

/// Parses frame sizes, FCS included: a list, or the name of one.
pub(crate) fn sizes(text: &str) -> Result<Box<[u32]>, String> {
    match text {
        "standard" => return Ok(STANDARD.into()),
        "numa" => return Ok(NUMA.into()),
        "all" => return Ok(ALL.into()),
        _ => {}
    }
    let size = |word: &str| word.parse().ok().filter(|size| SIZES.contains(size));
    let all: Option<Box<[u32]>> = text.split(',').map(size).collect();
    let wanted = "frame sizes from 64 to 9018, as 64,1518; or standard, numa, or all";
    all.ok_or_else(|| wanted.to_owned())
}
