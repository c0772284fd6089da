//! The user's options for a scenario.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::contenders::{self, Adapter};
use crate::remote::Remote;
use crate::rfc2544;
use crate::scenario::{Rate, Scenario};

/// The user's changes to a scenario, and the settings of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Turns, instead of the scenario's.
    pub repeats: Option<usize>,
    /// Packets per turn, instead of the scenario's time.
    pub packets: Option<u64>,
    /// Frame sizes, instead of the scenario's if it has some.
    pub sizes: Vec<u32>,
    /// Rates, instead of the scenario's, for work that has a rate.
    pub rates: Vec<Rate>,
    /// Contenders, instead of the scenario's: see [`check`].
    pub contenders: Vec<String>,
    /// The seed for the order of turns.
    pub seed: u64,
    /// Whether the run is short.
    pub is_quick: bool,
    /// The program `burstline`.
    pub program: PathBuf,
    /// The command line.
    pub command: String,
    /// Receives the lines of each RFC 2544 trial: see [`Asked::tell`](rfc2544::Asked::tell).
    pub tell_trial: fn(&str),
    /// Whether to also simulate instructions and cache misses.
    pub is_simulated: bool,
    /// Time limit of the run; turns without time are left out. `None` for no limit.
    pub budget: Option<Duration>,
    /// The generator, if it is on another machine.
    pub remote: Option<Arc<Remote>>,
    /// Set when the user stops the run.
    pub stop: Arc<AtomicBool>,
}

impl Options {
    /// Creates default options for the command line `command`.
    pub fn new(program: PathBuf, command: String, stop: Arc<AtomicBool>) -> Self {
        Self {
            repeats: None,
            packets: None,
            sizes: Vec::new(),
            rates: Vec::new(),
            contenders: Vec::new(),
            seed: 1,
            is_quick: false,
            program,
            command,
            tell_trial: |_| {},
            is_simulated: false,
            budget: None,
            remote: None,
            stop,
        }
    }
}

/// Returns the scenario with the user's changes.
pub fn adjusted(scenario: &Scenario, options: &Options) -> Scenario {
    let mut scenario = scenario.clone();
    if options.is_quick {
        scenario = scenario.quickly();
    }
    if !scenario.sizes.is_empty() && !options.sizes.is_empty() {
        scenario.sizes.clone_from(&options.sizes);
    }
    if scenario.work.takes_rates() && !options.rates.is_empty() {
        scenario.rates.clone_from(&options.rates);
    }
    if !options.contenders.is_empty() {
        scenario.contenders.clone_from(&options.contenders);
        let contenders = &scenario.contenders;
        scenario.figures.retain(|figure| contenders.contains(&figure.contender));
    }
    scenario.amounts.repeats = options.repeats.unwrap_or(scenario.amounts.repeats);
    scenario.amounts.packets = options.packets.or(scenario.amounts.packets);
    scenario
}

/// Checks that each contender named by the user does the scenario's work, even if the scenario does
/// not list it. Also checks that the work can be done as requested.
///
/// # Errors
/// One line: which contender does not do the work and which ones do, or what cannot be done.
pub fn check(scenario: &Scenario, options: &Options) -> Result<(), String> {
    let work = scenario.work;
    let does = |adapter: &&dyn Adapter| adapter.works().contains(&work);
    let known: Vec<&str> = contenders::all().filter(does).map(Adapter::name).collect();
    let fits = |name: &String| known.contains(&name.as_str());
    let Some(name) = options.contenders.iter().find(|&name| !fits(name)) else {
        return rfc2544::check(&adjusted(scenario, options));
    };
    let (scenario, known) = (&scenario.name, known.join(", "));
    Err(format!("{scenario}: no contender `{name}` for work {work}; known: {known}"))
}
