//! Forwards with a rule: what the rule wants goes from one port to another, changed on the way.
//!
//! ```text
//!   IN --> rule: udp port 53? --yes--> link addresses swapped --> OUT
//!                             '--no--> counted as `filtered`
//! ```
//!
//! Run it with `cargo run -p burstline-engine --example forward_udp [IN] [OUT] [RULE]`: files,
//! `gen:`, interfaces. Between two `xdp:` ports every packet stays in the frame it came in.

use std::error::Error;
use std::sync::atomic::AtomicBool;

use burstline_engine::{Progress, Run, Threads, bounce, open_bounce};
use burstline_port::{Address, OpenOptions, Rewrite, Treatment};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut next = |default: &str| arguments.next().unwrap_or_else(|| default.to_owned());
    let input: Address = next("gen:?packets=100000&size=imix&protocol=mix").parse()?;
    let output: Address = next("null:").parse()?;
    // The language of tcpdump, by libpcap; or a program, as `tcpdump -ddd` prints it.
    let filter = next("udp").parse()?;

    let options = OpenOptions { filter, ..OpenOptions::default() };
    let treatment = Treatment { rewrite: Rewrite::Swap, ..Treatment::default() };
    let crossings = open_bounce([&input, &output], false, &treatment, &options)?;
    let progress = Progress::new(crossings.len());
    let stop = AtomicBool::new(false);
    let done = bounce(crossings, &Threads::default(), &Run::new(&stop, &progress))?;
    for row in &done.report.ports {
        println!("{}: offered {}, forwarded {}", row.port, row.offered, row.delivered);
        for (cause, packets) in row.lost.iter() {
            println!("  {} {packets}", cause.name());
        }
    }
    Ok(())
}
