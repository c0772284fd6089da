//! A packet socket read by recvmmsg: how programs receive that were written without a ring.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use burstline_sys::affinity;
use burstline_sys::afpacket::{MESSAGES, PlainReceiver};

use super::Job;
use super::live::{Live, Own, Running};
use crate::live::Road;
use crate::scenario::Work;

/// The kernel's memory for packets that wait: as much as our ring has.
const BUFFER_BYTES: u32 = 8 << 20;

/// After the last packet, so long.
const SETTLE: Duration = Duration::from_millis(200);

/// A thread of this process that asks for packets without waiting, and counts them.
pub(super) struct PlainSocket;

impl Live for PlainSocket {
    fn name(&self) -> &'static str {
        "recvmmsg"
    }

    fn works(&self) -> &'static [Work] {
        &[Work::Count]
    }

    fn command(&self, job: &Job<'_>) -> String {
        format!(
            "a thread on core {}: recvmmsg of {MESSAGES} from a packet socket with a buffer of {} \
             MiB, without waiting",
            job.core_list(),
            BUFFER_BYTES >> 20
        )
    }

    fn start<'a>(&'a self, job: &Job<'_>, road: &'a Road) -> Result<Box<dyn Running + 'a>, String> {
        let core = *job.places.contender.first().ok_or("no core for the contender")?;
        let (interface, is_over) = (road.interface(), Arc::new(AtomicBool::new(false)));
        let flag = Arc::clone(&is_over);
        // A thread begins in the network namespace of the one that starts it.
        let thread = road.bed().far.run(move || {
            let receiver = PlainReceiver::open(interface, BUFFER_BYTES);
            let mut receiver = receiver.map_err(|error| error.to_string())?;
            Ok::<_, String>(thread::spawn(move || {
                affinity::pin_to(core).map_err(|error| error.to_string())?;
                count(&mut receiver, &flag)
            }))
        })?;
        thread::sleep(SETTLE);
        Ok(Box::new(Counting { thread: Some(thread), is_over }))
    }
}

/// Packets that were taken, and those for which there was no room.
fn count(receiver: &mut PlainReceiver, is_over: &AtomicBool) -> Result<(u64, u64), String> {
    let (mut packets, mut bytes) = (0, 0);
    // The flag carries no memory.
    while !is_over.load(Relaxed) {
        let received = receiver.receive(|packet| bytes += packet.len() as u64);
        packets += received.map_err(|error| format!("recvmmsg: {error}"))? as u64;
    }
    std::hint::black_box(bytes);
    let (_, dropped) = receiver.statistics().map_err(|error| error.to_string())?;
    Ok((packets, dropped))
}

struct Counting {
    thread: Option<JoinHandle<Result<(u64, u64), String>>>,
    is_over: Arc<AtomicBool>,
}

impl Running for Counting {
    fn end(mut self: Box<Self>, _: u64) -> Result<Own, String> {
        thread::sleep(SETTLE);
        self.is_over.store(true, Relaxed);
        let thread = self.thread.take().ok_or("it has ended")?;
        let (delivered, dropped) = thread.join().map_err(|_| "the thread has died")??;
        let losses = [("socket_full".to_owned(), dropped)].into_iter().filter(|loss| loss.1 > 0);
        Ok(Own { delivered, losses: losses.collect(), ..Own::default() })
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
        // It looks at the flag at every call.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
