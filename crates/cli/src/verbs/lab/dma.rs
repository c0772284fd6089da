//! `burstline lab dma` and `burstline lab retention`: a simulated card's driver, measured.

use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use burstline_engine::{EngineError, Limits, Progress, Run, Threads, open_bounce};
use burstline_lab::scenario::Begun;
use burstline_log::Scratch;
use burstline_nicsim::experiment::{Forwarding, Keeping, Retained, Retention};
use burstline_nicsim::pcie::{Bus, Direction};
use burstline_nicsim::{BusAccount, CardError, Mode, Settings};
use burstline_port::{Address, OpenOptions, Rate, Treatment, open_source};

use super::dma_record;
use super::scenarios::save;
use super::turns::{self, Rounds};
use crate::args::{DmaArgs, RetentionArgs};
use crate::failure::{FAILED, Failure, complain};
use crate::{signals, view};

/// Frames that go round and round.
const FRAMES: u64 = 4096;

/// Batches that valgrind counts.
const COUNTED_STEPS: u64 = 64;

/// The longest frame that the cards take, without FCS, as a card has it that is asked for nothing
/// else; and the FCS.
const LONGEST: usize = 1514;
const FCS_BYTES: usize = 4;

/// What a mode came to at a frame size.
pub(crate) struct DmaRow {
    /// As it was asked for.
    pub(crate) size: String,
    /// Bytes without FCS, of a frame on average.
    pub(crate) mean_length: f64,
    pub(crate) mode: Mode,
    /// Of the driver, of a packet.
    pub(crate) host_ns: f64,
    pub(crate) instructions: Option<f64>,
    pub(crate) bus: BusAccount,
    /// The real run: packets a second, both ways together; lost; unaccounted for.
    pub(crate) run_pps: f64,
    pub(crate) run_lost: u64,
    pub(crate) run_unaccounted: i64,
}

impl DmaRow {
    /// Bytes of the bus a packet.
    pub(crate) fn bus_bytes(&self, direction: Direction) -> f64 {
        self.bus.bytes(direction) as f64 / self.bus.received as f64
    }

    /// Bytes a packet received, as the paper counts.
    pub(crate) fn paper_bytes(&self) -> f64 {
        self.bus.paper_bytes as f64 / self.bus.received as f64
    }
}

/// What keeping 1 packet in `every` came to.
pub(crate) struct RetentionRow {
    pub(crate) every: u64,
    pub(crate) keeping: Keeping,
    pub(crate) retained: Retained,
}

/// Runs the paper's experiment, and prints it.
pub(crate) fn dma(args: &DmaArgs) -> Result<ExitCode, Failure> {
    let bus = Bus::new(args.pcie, args.payload, args.request);
    let bus = bus.map_err(|error| Failure::usage(error.to_string()))?;
    if let Some(task) = &args.driver_only {
        return driver_only(task, bus);
    }
    let line_bits = match args.line {
        Rate::LineBits(bits) if bits >= 1.0 => bits,
        _ => return Err(Failure::usage("invalid value for '--line': a link's rate is as 10Gbit")),
    };
    let stop = signals::stop_flag(false)?;
    // All of them before the first is run: that may take minutes.
    let sizes = args.sizes.iter().map(|size| Ok((&size[..], frames(size)?)));
    let sizes: Vec<(&str, Vec<Vec<u8>>)> = sizes.collect::<Result<_, Failure>>()?;
    let (modes, begun) = (Mode::ALL.len(), Begun::now());
    let asked = Rounds { rounds: args.repeats, things: sizes.len() * modes };
    let rows = asked.run(&stop, |number, thing| {
        let ((size, frames), mode) = (&sizes[thing / modes], Mode::ALL[thing % modes]);
        let (number, asked) = (number + 1, asked.turns());
        signals::now_doing(format!("row {number} of {asked}: {size} bytes, {mode}"));
        row(args, (size, frames), mode, bus, &stop).map(Some)
    })?;
    let is_whole = turns::done(&rows) == asked.turns();
    if let Some(folder) = &args.out {
        save(&dma_record::forwarding(begun, args, (&bus, line_bits), &rows), folder)?;
    }
    let text = match args.json {
        true => format!("{}\n", view::dma::json(args, (&bus, line_bits), &rows, is_whole)),
        false => view::dma::text(args, (&bus, line_bits), &rows, is_whole),
    };
    view::print(&text)?;
    let mut all = rows.iter().flat_map(|turns| &turns.0);
    let is_closed = all.all(|row| row.run_unaccounted == 0);
    Ok(ended((turns::done(&rows), asked.turns()), is_closed))
}

/// Whether the user wants an end. The flag carries no memory.
fn is_over(stop: &AtomicBool) -> bool {
    stop.load(Relaxed)
}

/// The exit code, for rows that are there of those that were asked for.
fn ended((done, asked): (usize, usize), is_good: bool) -> ExitCode {
    if done < asked {
        complain(&format!("ended early: {done} of {asked} rows"));
    }
    if done == asked && is_good { ExitCode::SUCCESS } else { ExitCode::from(FAILED) }
}

fn row(
    args: &DmaArgs,
    (size, frames): (&str, &[Vec<u8>]),
    mode: Mode,
    bus: Bus,
    stop: &Arc<AtomicBool>,
) -> Result<DmaRow, Failure> {
    let mut forwarding = Forwarding::new(&settings(mode, bus), frames).map_err(failed)?;
    let (start, time) = (Instant::now(), Duration::from_nanos(args.time));
    while start.elapsed() < time && !is_over(stop) {
        (0..64).for_each(|_| forwarding.step());
    }
    let instructions = match args.instructions && !is_over(stop) {
        true => Some(instructions(mode, size)?),
        false => None,
    };
    let (run_pps, run_lost, run_unaccounted) = bounce(args, (size, mode), stop)?;
    let bytes: usize = frames.iter().map(Vec::len).sum();
    Ok(DmaRow {
        size: size.to_owned(),
        mean_length: bytes as f64 / frames.len() as f64,
        mode,
        host_ns: forwarding.cost.ns_a_packet(),
        instructions,
        bus: forwarding.bus_account(),
        run_pps,
        run_lost,
        run_unaccounted,
    })
}

fn settings(mode: Mode, bus: Bus) -> Settings {
    Settings { ring: 1024, log_bytes: 8 << 20, longest: LONGEST, ..Settings::new(mode, bus) }
}

fn failed(error: CardError) -> Failure {
    Failure::new(error.to_string())
}

/// Frames of a size, the same each time.
///
/// # Errors
/// There is no such size, or it has frames that the cards do not take: nothing would ever come.
fn frames(size: &str) -> Result<Vec<Vec<u8>>, Failure> {
    let address: Address = format!("gen:?size={size}&flows=64&packets={FRAMES}").parse()?;
    let mut port = open_source(&address, &OpenOptions::default()).map_err(EngineError::from)?;
    let (mut frames, mut scratch) = (Vec::new(), Scratch::new());
    loop {
        let lent = port.lend(&mut scratch, FRAMES).map_err(EngineError::from)?;
        if lent.burst.is_empty() {
            break;
        }
        frames.extend(lent.burst.packets().map(|packet| packet.bytes().to_vec()));
    }
    match frames.iter().map(Vec::len).max() {
        Some(longest) if longest > LONGEST => Err(Failure::usage(format!(
            "size {size} has frames of {} bytes, and the cards here take {} at most",
            longest + FCS_BYTES,
            LONGEST + FCS_BYTES
        ))),
        _ => Ok(frames),
    }
}

/// `bounce nicsim:a nicsim:b --both`, as fast as it goes: packets a second, lost, unaccounted for.
fn bounce(
    args: &DmaArgs,
    (size, mode): (&str, Mode),
    stop: &AtomicBool,
) -> Result<(f64, u64, i64), Failure> {
    let end = |name: &str| -> Result<Address, Failure> {
        let source = format!("gen:?size={size}%26flows=64%26packets={FRAMES}");
        let slot = format!("pcie={}&payload={}&request={}", args.pcie, args.payload, args.request);
        let card = format!("nicsim:{name}?mode={mode}&source={source}&loop={FRAMES}&{slot}");
        Ok(card.parse()?)
    };
    let (treatment, ports) = (Treatment::default(), OpenOptions::default());
    let crossings = open_bounce([&end("a")?, &end("b")?], true, &treatment, &ports)?;
    let progress = Progress::new(crossings.len());
    let limits = Limits { packets: None, duration_ns: Some(args.time) };
    let run = Run::new(stop, &progress).within(limits);
    let bounced = burstline_engine::bounce(crossings, &Threads::default(), &run)?;
    let total = &bounced.report.total;
    Ok((total.packets_per_s, total.lost_total, total.unaccounted))
}

/// Instructions of the driver's part, of a packet: this program once more, under callgrind.
fn instructions(mode: Mode, size: &str) -> Result<f64, Failure> {
    let program = std::env::current_exe();
    let program = program.map_err(|error| Failure::new(format!("find this program: {error}")))?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg("--toggle-collect=*forward_part*")
        .arg(program)
        .args(["lab", "dma", "--driver-only", &format!("{mode},{size},{COUNTED_STEPS}")])
        .output()
        .map_err(|error| {
            Failure::new(format!("run valgrind: {error}: apt-get install valgrind"))
        })?;
    let said = String::from_utf8_lossy(&output.stderr);
    let counted = said.lines().find(|line| line.contains("Collected :"));
    let counted = counted.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    let packets = String::from_utf8_lossy(&output.stdout).trim().parse::<f64>().ok();
    match counted.zip(packets) {
        Some((counted, packets)) => Ok(counted / packets),
        None => Err(Failure::new(format!("valgrind counted nothing: {}", said.trim()))),
    }
}

fn driver_only(task: &str, bus: Bus) -> Result<ExitCode, Failure> {
    let mut words = task.splitn(3, ',');
    let mut word = || words.next().unwrap_or_default();
    let (mode, size, steps) = (Mode::named(word()), word(), word().parse::<u64>());
    let (Some(mode), Ok(steps)) = (mode, steps) else {
        return Err(Failure::usage("--driver-only is as inline,64,100"));
    };
    let mut forwarding = Forwarding::new(&settings(mode, bus), &frames(size)?).map_err(failed)?;
    (0..steps).for_each(|_| forwarding.step());
    view::print(&format!("{}\n", forwarding.cost.packets))?;
    Ok(ExitCode::SUCCESS)
}

/// Keeps 1 packet in k, and prints what that pins and costs.
pub(crate) fn retention(args: &RetentionArgs) -> Result<ExitCode, Failure> {
    let bus = Bus::new("3.0x8".parse().map_err(Failure::new)?, 256, 512);
    let bus = bus.map_err(|error| Failure::new(error.to_string()))?;
    let (frames, stop) = (frames(&args.size)?, signals::stop_flag(false)?);
    let (ways, begun) = (Keeping::ALL.len(), Begun::now());
    let asked = Rounds { rounds: args.repeats, things: args.every.len() * ways };
    let rows = asked.run(&stop, |number, thing| {
        let (every, keeping) = (args.every[thing / ways], Keeping::ALL[thing % ways]);
        let (number, asked, name) = (number + 1, asked.turns(), keeping.name());
        signals::now_doing(format!("row {number} of {asked}: 1 in {every} kept, {name}"));
        let (span, packets) = (args.span, args.packets);
        let retention = Retention { every, span, packets, stop: &stop };
        let settings = settings(keeping.mode(), bus);
        let retained = retention.run(&settings, keeping, &frames).map_err(failed)?;
        let is_done = retained.cost.packets >= packets;
        Ok(is_done.then_some(RetentionRow { every, keeping, retained }))
    })?;
    let is_whole = turns::done(&rows) == asked.turns();
    if let Some(folder) = &args.out {
        save(&dma_record::keeping(begun, args, &rows), folder)?;
    }
    let text = match args.json {
        true => format!("{}\n", view::dma::retention_json(args, &rows, is_whole)),
        false => view::dma::retention_text(args, &rows, is_whole),
    };
    view::print(&text)?;
    Ok(ended((turns::done(&rows), asked.turns()), true))
}
