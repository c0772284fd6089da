//! Any bytes as a message of a publisher or of its client: what is read of it is what a message
//! made of that says.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| burstline_share::read_and_say_again(data));
