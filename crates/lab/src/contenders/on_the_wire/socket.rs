//! A packet socket read by recvmmsg, as programs without a ring receive.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use burstline_afpacket::{MESSAGES, PlainReceiver};
use burstline_sys::affinity::{self, CoreId};

use crate::contenders::Job;
use crate::contenders::live::{Live, Own, Running};
use crate::live::Road;
use crate::scenario::Work;

/// Size of the socket's receive buffer: as large as our ring.
const BUFFER_BYTES: u32 = 8 << 20;

/// How long to wait after the last packet.
const SETTLE: Duration = Duration::from_millis(200);

/// Threads of this process that poll sockets without blocking and count packets.
pub(crate) struct PlainSocket;

impl Live for PlainSocket {
    fn name(&self) -> &'static str {
        "recvmmsg"
    }

    fn has_remote(&self) -> bool {
        true
    }

    fn works(&self) -> &'static [Work] {
        &[Work::Count]
    }

    fn command(&self, job: &Job<'_>) -> String {
        format!(
            "a thread on each of core {}: recvmmsg of {MESSAGES} from {} packet socket(s) with a \
             buffer of {} MiB each, in turns, without waiting",
            job.core_list(),
            job.comes_in.len(),
            BUFFER_BYTES >> 20
        )
    }

    fn start<'a>(&'a self, job: &Job<'_>, road: &'a Road) -> Result<Box<dyn Running + 'a>, String> {
        let is_over = Arc::new(AtomicBool::new(false));
        let mut counting = Counting { threads: Vec::new(), is_over };
        let cores: Vec<CoreId> =
            job.places.contender.iter().copied().take(job.comes_in.len()).collect();
        for (number, &core) in cores.iter().enumerate() {
            // Thread N of M takes the interfaces N, N + M, and so on.
            let own = road.interfaces().iter().skip(number).step_by(cores.len()).cloned();
            let (own, flag) = (own.collect::<Vec<_>>(), Arc::clone(&counting.is_over));
            // A thread starts in the network namespace of its parent.
            counting.threads.push(road.host().run(move || {
                let open = |interface: &String| PlainReceiver::open(interface, BUFFER_BYTES);
                let receivers = own.iter().map(open).collect::<Result<Vec<_>, _>>();
                let mut receivers = receivers.map_err(|error| error.to_string())?;
                Ok::<_, String>(thread::spawn(move || {
                    affinity::pin_to(core).map_err(|error| error.to_string())?;
                    count(&mut receivers, &flag)
                }))
            })?);
        }
        thread::sleep(SETTLE);
        Ok(Box::new(counting))
    }
}

/// Returns the packets received and those dropped because the buffer was full.
fn count(receivers: &mut [PlainReceiver], is_over: &AtomicBool) -> Result<(u64, u64), String> {
    let (mut packets, mut bytes) = (0, 0);
    // Relaxed: no other data depends on the flag.
    while !is_over.load(Relaxed) {
        for receiver in receivers.iter_mut() {
            let received = receiver.receive(|packet| bytes += packet.len() as u64);
            packets += received.map_err(|error| format!("recvmmsg: {error}"))? as u64;
        }
    }
    std::hint::black_box(bytes);
    let mut all_dropped = 0;
    for receiver in receivers {
        let (_, dropped) = receiver.statistics().map_err(|error| error.to_string())?;
        all_dropped += dropped;
    }
    Ok((packets, all_dropped))
}

struct Counting {
    threads: Vec<JoinHandle<Result<(u64, u64), String>>>,
    is_over: Arc<AtomicBool>,
}

impl Running for Counting {
    fn end(mut self: Box<Self>, _: u64) -> Result<Own, String> {
        thread::sleep(SETTLE);
        self.is_over.store(true, Relaxed);
        let (mut delivered, mut dropped) = (0, 0);
        for thread in self.threads.drain(..) {
            let (taken, lost) = thread.join().map_err(|_| "a thread has died")??;
            delivered += taken;
            dropped += lost;
        }
        let losses = [("socket_full".to_owned(), dropped)].into_iter().filter(|loss| loss.1 > 0);
        Ok(Own { delivered, losses: losses.collect(), ..Own::default() })
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
        // The threads check the flag in every round.
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}
