//! A card whose device dies in mid-run.

use std::sync::Arc;

use burstline_log::{Meta, Scratch};
use burstline_nicsim::{Arrived, Assembly, Carousel, Mode, Room, Sending, Wire};

use super::settings::Plug;
use super::sink::Sink;
use super::source::Source;
use super::wire::FarEnd;
use crate::{Address, OpenOptions, Port, PortError, PortState};

/// Brings, or takes, so many frames, and panics.
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

    fn depart(&mut self, _frame: &[u8]) {
        assert!(self.left > 0, "a faulty wire, as the test wants it");
        self.left -= 1;
    }
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
        let assembly = Assembly::new(room, (faulty(300), Sending::Nothing), 0, None);
        let (card, mut receivers, _) = assembly.start().unwrap();
        let end = (receivers.pop().unwrap(), Arc::new(card));
        let options = OpenOptions::default();
        let mut port =
            Source::new(address.to_string(), &plug, end, (None, true), &options).unwrap();
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

#[test]
fn a_sink_names_what_its_card_took_along() {
    for mode in Mode::ALL {
        let (address, plug) = plug(mode);
        let room = Room::create(&plug.settings, false, true).unwrap();
        let assembly = Assembly::new(room, (faulty(50), Sending::Copies), 0, None);
        let (card, _, transmit) = assembly.start().unwrap();
        let mut port = Sink::new(&address, &plug, transmit, card, Arc::new(FarEnd::default()));
        let (mut scratch, bytes, mut taken) = (Scratch::new(), [7; 60], 0);
        for _ in 0..100 {
            scratch.push(0, 60, &Meta::new(0, 60, 0));
        }
        let error = loop {
            let sent = port.transmit(&scratch.burst(&bytes, 0));
            taken += sent.as_ref().map_or(0, |packets| *packets);
            if let Err(error) = sent.and_then(|_| port.flush()) {
                break error;
            }
        };
        assert!(is_death(&error), "{mode}: {error}");
        assert!(port.finish().is_err(), "{mode}");
        let account = port.account();
        assert_eq!((account.offered, account.in_flight), (taken, 0), "{mode}");
        // A batch may be half sent when the device dies: by its own word it then sent none of it.
        let delivered = account.offered - account.lost.total();
        assert!(delivered <= 50, "{mode}: {delivered} by {:?}", account.lost);
    }
}
