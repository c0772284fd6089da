//! Measures how the page size affects random accesses to a region.

use std::hint::black_box;

use burstline_sys::memory::{PageChoice, PageKind};

use crate::arena::Arena;
use crate::contenders::memory::Order;
use crate::contenders::{Adapter, Job, Sample, timed};
use crate::pages::Reservation;
use crate::scenario::Work;

/// Size of the region.
const BYTES: usize = 256 << 20;

/// Accesses between two readings of the clock.
const TOUCHES: usize = 4096;

/// A kind of page.
pub(crate) struct Pages {
    name: &'static str,
    choice: PageChoice,
}

impl Pages {
    pub(crate) const SMALL: Self = Self { name: "pages-4k", choice: PageChoice::Size4K };
    pub(crate) const TRANSPARENT: Self =
        Self { name: "pages-transparent", choice: PageChoice::Transparent };
    pub(crate) const LARGE: Self = Self { name: "pages-2m", choice: PageChoice::Size2M };

    fn arena(&self) -> Result<Arena, String> {
        let is_large = self.choice == PageChoice::Size2M;
        let reservation = is_large.then(|| Reservation::take((BYTES >> 21) as u64));
        let arena = Arena::create(BYTES, self.choice).map_err(|error| error.to_string())?;
        drop(reservation);
        let is_granted = match self.choice {
            PageChoice::Transparent => arena.page() == PageKind::Transparent,
            _ => true,
        };
        if is_granted { Ok(arena) } else { Err("the kernel gave pages of 4 KiB".to_owned()) }
    }
}

impl Adapter for Pages {
    fn name(&self) -> &'static str {
        self.name
    }

    fn works(&self) -> &'static [Work] {
        &[Work::Touch]
    }

    fn command(&self, job: &Job<'_>) -> String {
        let (bytes, mebibytes) = (job.size_bytes, BYTES >> 20);
        format!("reads a word of frames of {bytes} bytes in {mebibytes} MiB, in random order")
    }

    fn measure(&self, job: &Job<'_>) -> Result<Sample, String> {
        timed::pin(job)?;
        let arena = self.arena()?;
        let words: *const u64 = arena.cells::<u64>(BYTES / 8).as_ptr().cast();
        let frame_words = (job.size_bytes as usize).div_ceil(8);
        let mut order = Order::new(BYTES / 8 / frame_words);
        let touch = |word: usize| {
            // SAFETY: callers pass numbers below that of the arena's words; the arena is alive, and
            // no one writes to it.
            unsafe { words.add(word).read() }
        };
        // Touch each page once, so that it is mapped.
        black_box((0..BYTES / 8).step_by(512).fold(0, |sum, word| sum ^ touch(word)));
        let mut sum = 0_u64;
        let done = timed::run(job, TOUCHES, || {
            for _ in 0..TOUCHES {
                sum = sum.wrapping_add(touch(order.next() * frame_words));
            }
        })?;
        black_box(sum);
        let mut sample = Sample::default();
        sample.set("packets", "packets", done.pieces as f64);
        sample.set("ns", "ns per touch", done.ns_each());
        sample.lies_in(arena.page());
        Ok(sample)
    }
}
