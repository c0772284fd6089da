//! Measures injection: `burstline generate -o inject:` into an interface, against sending to it
//! over AF_XDP from the other end of its cable.
//!
//! Both create the same numbered packets. The receiver is an XDP program that counts and drops, so
//! the figure measures the path to it.

use std::thread;
use std::time::{Duration, Instant};

use burstline_xdp::XdpInterface;
use burstline_xdp::bpf::{
    Alu, Assembler, BpfError, Compare, Helper, Link, MappedArray, Program, ProgramOptions,
    Register::*, Size, XdpMode, possible_cpus, xdp_action,
};

use super::Context;
use crate::compared::{Better, Outcome};
use crate::live::{Contender, Road, missing};
use crate::programs::Ours;
use crate::programs::our_program;
use crate::scenario::machine::Served;

/// Duration of the count.
const TIME: Duration = Duration::from_secs(2);
const SMOKE_TIME: Duration = Duration::from_millis(200);

/// Time from when a side is ready until the count starts.
const WARM_UP: Duration = Duration::from_millis(300);

/// Size of a core's counter in words: a cache line.
const WORDS: u32 = 8;

/// The target, in Mpps.
const AIM: f64 = 5.0;

/// `inject-64`: millions of frames a second.
pub(super) fn measure(context: &Context) -> Result<Outcome, String> {
    if let Some(why) = missing(&[]) {
        return Ok(Outcome::NotHere(why));
    }
    let (program, core) = (our_program()?, context.cores.consumer);
    let command =
        |sink: &str| Ours::new(&program, &format!("generate -o {sink} --size 64 --cores {core}"));
    let comparison = context.begin();
    let rounds = context.turns(
        context.process_runs(),
        || run(context, "v1", &command("inject:v1")),
        || run(context, "w0", &command("xdp:w1")),
    )?;
    let details = vec![
        format!(
            "packets of 60 bytes, each with a number, a time and checksums, for {} s at top speed; \
             counted and dropped by an XDP program where they come in; aim {AIM} Mpps",
            TIME.as_secs()
        ),
        "ours: burstline generate -o inject:v1, in by v1; peer: burstline generate -o xdp:w1, out \
         by w1 and in by the other end of its cable"
            .to_owned(),
    ];
    Ok(comparison.outcome("Mpps", Better::Higher, rounds, details))
}

/// Returns the millions of packets a second that `interface` receives, on the near or the far host.
fn run(context: &Context, interface: &'static str, launch: &Ours) -> Result<f64, String> {
    let (road, served) = (Road::new(context.cores)?, Served::now());
    road.bed().connect("w0", "w1", 1500).map_err(|error| error.to_string())?;
    let host = if interface.ends_with('0') { &road.bed().near } else { &road.bed().far };
    let counter = host.run(move || Counter::attach(interface))?;
    let cores = format!("{},{}", context.cores.producer.0, context.cores.consumer.0);
    let contender = Contender::start(&road, &cores, launch, &context.stop)?;
    thread::sleep(WARM_UP);
    let before = (Instant::now(), counter.packets());
    thread::sleep(if context.smoke { SMOKE_TIME } else { TIME });
    let after = (Instant::now(), counter.packets());
    let command = contender.command().to_owned();
    contender.end()?;
    context.look_at(road.bed(), &served);
    let packets = after.1 - before.1;
    match packets {
        0 => Err(format!("{interface} received nothing from `{command}`")),
        _ => Ok(packets as f64 / (after.0 - before.0).as_secs_f64() / 1e6),
    }
}

/// A program that counts and drops, detached on drop.
struct Counter {
    words: MappedArray,
    cores: u32,
    _link: Link,
}

impl Counter {
    fn attach(interface: &str) -> Result<Self, String> {
        let cores = possible_cpus().map_err(|error| error.to_string())?;
        let attach = || {
            let words = MappedArray::create("bl_dropped", cores * WORDS, 1)?;
            let mut code = Assembler::new();
            let end = code.label();
            code.call(Helper::CurrentCore)
                // Never taken, but the verifier requires it.
                .jump_if(Compare::AboveOrEqual, R0, cores as i32, end)
                .alu(Alu::ShiftLeft, R0, (WORDS * 8).trailing_zeros() as i32)
                .load_map_value(R9, words.map(), 0)
                .add(R9, R0)
                .load(Size::Double, R1, R9, 0)
                .add(R1, 1)
                .store(Size::Double, R9, 0, R1)
                .bind(end)
                .mov(R0, xdp_action::DROP)
                .exit();
            let options = ProgramOptions { name: "bl_drop", ..ProgramOptions::default() };
            let program = Program::load(&code.finish()?, &options)?;
            Ok::<_, BpfError>((words, program))
        };
        let (words, program) = attach().map_err(|error| error.to_string())?;
        let found = XdpInterface::by_name(interface).map_err(|error| error.to_string())?;
        let link = Link::attach_xdp(&program, found.link.index, XdpMode::Native);
        let link = link.map_err(|error| error.to_string())?;
        Ok(Self { words, cores, _link: link })
    }

    /// Returns the packets dropped so far.
    fn packets(&self) -> u64 {
        (0..self.cores).map(|core| self.words.word(0, (core * WORDS) as usize)).sum()
    }
}
