//! Tests how mirror targets that are not ports are opened.

use burstline_sys::temporary::TemporaryFolder;

use super::*;

#[test]
fn a_target_of_mirrors_waits_for_nobody_unless_it_is_told_to() {
    let folder = TemporaryFolder::create("burstline-switch-").unwrap();
    let address = format!("log:{}", folder.file("target"));
    for (asked, opened) in [
        (address.clone(), format!("{address}?wait_ms=0")),
        (format!("{address}?wait_ms=7"), format!("{address}?wait_ms=7")),
    ] {
        let target = OpenedTarget::open(&asked, &OpenOptions::default()).unwrap();
        assert_eq!((target.name(), &target.sink.info().name), (&*asked, &opened));
    }
}
