//! A card whose device panics during a run.

use std::sync::Arc;

use burstline_log::Scratch;
use burstline_nicsim::{Arrived, Assembly, Carousel, Mode, Room, Sending, Wire};

use super::settings::Plug;
use super::source::{CardEnd, NicsimSource};
use crate::{Address, OpenOptions, Port, PortError, PortState, Source};

/// Delivers this many frames, then panics.
struct Faulty {
    frames: Carousel,
    left: u64,
}

impl Wire for Faulty {
    fn arrive(&mut self, budget: u64) -> Arrived<'_> {
        assert!(self.left > 0, "a faulty wire, as the test wants it");
        let budget = budget.min(self.left);
        self.left -= budget;
        self.frames.arrive(budget)
    }

    fn can_wait(&self) -> bool {
        true
    }

    fn depart(&mut self, _frame: &[u8]) {}
}

fn faulty(left: u64) -> Box<Faulty> {
    Box::new(Faulty { frames: Carousel::new([&[7; 60][..]]), left })
}

fn plug(mode: Mode) -> (Address, Plug) {
    let address: Address = format!("nicsim:a?mode={mode}").parse().unwrap();
    let plug = Plug::parse(&address).unwrap();
    (address, plug)
}

fn is_death(error: &PortError) -> bool {
    matches!(error, PortError::CardDied { .. })
}

#[test]
fn a_source_gives_what_came_and_then_says_that_its_card_died() {
    for mode in Mode::ALL {
        let (address, plug) = plug(mode);
        let room = Room::create(&plug.settings, true, false).unwrap();
        let assembly = Assembly::new(room, faulty(300), Sending::Nothing, 0, None);
        let (card, mut receivers, _) = assembly.start().unwrap();
        let (receiver, card) = (receivers.pop().unwrap(), Arc::new(card));
        let end = CardEnd { receiver, card, far: None, can_wait: true };
        let options = OpenOptions::default();
        let mut port = NicsimSource::new(address.to_string(), &plug, end, &options).unwrap();
        let (mut scratch, mut got) = (Scratch::new(), 0);
        let error = loop {
            match port.lend(&mut scratch, 100) {
                Ok(lent) => {
                    assert_ne!(lent.state, PortState::Ended, "{mode}");
                    got += lent.burst.len() as u64;
                }
                Err(error) => break error,
            }
        };
        assert!(is_death(&error), "{mode}: {error}");
        let account = port.account();
        assert_eq!(account.offered, 300, "{mode}");
        assert_eq!(account.in_flight, 0, "{mode}");
        assert_eq!(got + account.lost.total(), 300, "{mode}: {:?}", account.lost);
    }
}
