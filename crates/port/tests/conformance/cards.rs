//! What holds for simulated cards that packets are sent by: the wire's other end has them.

use burstline_log::Scratch;
use burstline_port::{Loss, PortState};

use crate::backends::{options, sources};
use crate::common::{Folder, Got, drain_by_lending, open_file, sink};

const CARDS: [&str; 4] = [
    "mode=writeback&mtu=9014",
    "mode=inline&mtu=9014&ring=64",
    "mode=contiguous&mtu=9014",
    // Some of what is sent is longer.
    "mode=writeback",
];

#[test]
fn the_far_end_of_a_card_has_what_was_sent_by_it() {
    let folder = Folder::new();
    for backend in sources(&folder).into_iter().filter(|backend| !backend.is_slow) {
        for card in CARDS {
            let what = format!("{} by {card}", backend.name);
            let path = folder.path("out.pcapng");
            let longest = if card.contains("mtu") { 9014 } else { 1514 };
            let address = format!("nicsim:?{card}&to=file:{}", path.display());
            let mut from = (backend.open)();
            let mut to = sink(&address, &options()).unwrap();
            let (mut scratch, mut sent, mut offered, mut taken) = (Scratch::new(), vec![], 0, 0);
            loop {
                let lent = from.lend(&mut scratch, 97).unwrap();
                offered += lent.burst.len() as u64;
                let fitting = lent.burst.packets().filter(|packet| packet.length() <= longest);
                sent.extend(fitting.map(|packet| Got::new(&packet)));
                taken += to.transmit(&lent.burst).unwrap();
                let account = to.account();
                assert_eq!(account.offered, offered, "{what}");
                assert!(taken == sent.len() as u64 && account.in_flight <= taken, "{what}");
                if lent.state == PortState::Ended {
                    break;
                }
            }
            to.finish().unwrap();
            let account = to.account();
            assert_eq!((account.in_flight, account.lost.total()), (0, offered - taken), "{what}");
            assert_eq!(account.lost.of(Loss::TooLong), offered - taken, "{what}");
            let read = drain_by_lending(&mut *open_file(&path), u64::MAX);
            assert_eq!(read.len(), sent.len(), "{what}");
            for (read, sent) in read.iter().zip(&sent) {
                assert_eq!(read.bytes, sent.bytes, "{what}");
            }
        }
    }
}
