use std::fs;

use burstline_sys::temporary::TemporaryFolder;

use super::super::super::window::READ_BYTES;
use super::*;

#[test]
fn a_jump_over_a_long_block_reads_no_more_than_usual_behind_it() {
    const LONG: u32 = 2 << 20;
    // A section header, and a Custom Block whose end is not reached.
    let head = [0x0A0D_0D0A, 28, 0x1A2B_3C4D, 1, u32::MAX, u32::MAX, 28, 0x0BAD, LONG];
    let mut file: Vec<u8> = head.iter().flat_map(|word| word.to_le_bytes()).collect();
    file.resize(2 * LONG as usize, 0);
    let folder = TemporaryFolder::create("burstline-jump-").unwrap();
    let path = folder.path().join("x.pcapng");
    fs::write(&path, file).unwrap();
    let path = path.to_string_lossy();
    let mut reader = CaptureReader::open(&path, &OpenedFiles::default()).unwrap();
    assert_eq!(reader.step(), Step::NeedMore { bytes: LONG as usize });
    assert!(reader.jump(28 + u64::from(LONG)).unwrap());
    reader.refill().unwrap();
    assert_eq!(reader.window.rest().len(), READ_BYTES);
}
