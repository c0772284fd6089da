//! Tests of settings that no address can express.

use std::time::{Duration, Instant};

use burstline_afpacket::Sender;
use burstline_log::Scratch;
use burstline_skip::skip;
use burstline_testbed::{Bed, FAR, Frames, NEAR, sequence_of};

use super::*;
use crate::{Loss, PortError, PortState, Source, TimestampSource};

/// Long enough for an overloaded machine; only a failing test waits that long.
const PATIENCE: Duration = Duration::from_secs(60);

/// Opens the far end for packets of one frame each.
fn open_without_fragments(bed: &Bed, mode: &str) -> Result<Box<dyn Source>, PortError> {
    let address: Address = format!("xdp:{FAR}?mode={mode}").parse().unwrap();
    let mut settings = settings::parse(&address, TimestampSource::Program).unwrap();
    settings.socket.is_multi_buffer = false;
    bed.far.run(move || {
        let mut ports = open_with(&settings, &address, &OpenOptions::default())?;
        Ok(ports.remove(0))
    })
}

#[test]
fn packets_longer_than_a_frame_are_lost_where_there_can_be_but_one() {
    let Some(bed) = Bed::or_skip() else { return };
    for (host, name) in [(&bed.near, NEAR), (&bed.far, FAR)] {
        host.command("ip", &["link", "set", name, "mtu", "3000"]).unwrap();
    }
    for mode in ["native", "generic"] {
        let mut port = match open_without_fragments(&bed, mode) {
            Err(error) if error.to_string().contains("setcap") => {
                skip(error);
                return;
            }
            port => port.unwrap(),
        };
        // A frame has 1792 bytes for a packet.
        bed.near.run(|| {
            let mut sender = Sender::open(NEAR, true).unwrap();
            for (first, length) in [(0, 1792), (100, 1793), (200, 3014), (300, 60)] {
                let frames = Frames { first, ..Frames::new(100, length) };
                assert_eq!(frames.send(&mut sender).unwrap(), 100);
            }
        });
        let (mut scratch, mut numbers, start) = (Scratch::new(), Vec::new(), Instant::now());
        while port.account().offered < 400 {
            assert!(start.elapsed() < PATIENCE, "{:?}", port.account());
        }
        port.finish().unwrap();
        loop {
            let lent = port.lend(&mut scratch, u64::MAX).unwrap();
            numbers.extend(lent.burst.packets().filter_map(|packet| sequence_of(packet.bytes())));
            if lent.state == PortState::Ended {
                break;
            }
        }
        assert!(numbers.into_iter().eq((0..100).chain(300..400)), "{mode}");
        let account = port.account();
        assert_eq!((account.offered, account.in_flight), (400, 0), "{mode}");
        assert_eq!(account.lost.of(Loss::FrameTooSmall), 200, "{mode}");
        assert_eq!(account.lost.total(), 200, "{mode}");
    }
}
