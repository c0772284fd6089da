//! Three stages on four threads, and a ledger that closes for each.
//!
//! ```text
//!   receive --> | log | --> classify --> | log | --> count large
//!                                   '--> | log | --> count small
//! ```
//!
//! Run it with `cargo run -p burstline-engine --example three_stages [SOURCE]`.

use std::error::Error;
use std::sync::atomic::AtomicBool;

use burstline_engine::{CaptureOptions, Inlet, Pipeline, Progress, Run};
use burstline_log::LogConfig;
use burstline_port::OpenOptions;

fn main() -> Result<(), Box<dyn Error>> {
    let source = std::env::args().nth(1);
    let source = source.unwrap_or_else(|| "gen:?packets=1000000&size=imix".to_owned());
    let ports = OpenOptions::default();
    let mut pipeline = Pipeline::new(CaptureOptions {
        log: LogConfig { bytes: 8 << 20, ..LogConfig::default() },
        ..CaptureOptions::new(ports.table.clone())
    });
    let (mut large, mut small) = (0_u64, 0_u64);
    let wire = pipeline.receive("receive", vec![Inlet::open(&source.parse()?, &ports)?]);
    let sizes = pipeline.route("classify", &[wire], 2, |packet| match packet.length() {
        0..60 => None,
        length => Some(usize::from(length < 200)),
    });
    let add = |sum: &mut u64, length: usize| *sum += length as u64;
    pipeline.work("large", &sizes[..1], |burst| {
        burst.packets().for_each(|packet| add(&mut large, packet.length()));
    });
    pipeline.work("small", &sizes[1..], |burst| {
        burst.packets().for_each(|packet| add(&mut small, packet.length()));
    });
    let (receivers, workers) = pipeline.size();
    let progress = Progress::with_workers(receivers, workers);
    let report = pipeline.run(&Run::new(&AtomicBool::new(false), &progress))?;
    for stage in &report.stages {
        let (came, went, lost) = (stage.packets_in, stage.packets_out, stage.lost);
        let is_closed = came == went + lost;
        println!("{:<10} {came:>9} = {went:>9} + {lost} lost, closes: {is_closed}", stage.name);
    }
    println!("{large} bytes in large packets, {small} in small ones");
    Ok(())
}
