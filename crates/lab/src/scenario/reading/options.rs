//! What the user may change of a scenario.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::contenders::{self, Adapter};
use crate::remote::Remote;
use crate::rfc2544;
use crate::scenario::{Rate, Scenario};

/// What the user may change of a scenario, and what a run has to know.
#[derive(Clone, Debug)]
pub struct Options {
    /// Turns, in place of the scenario's.
    pub repeats: Option<usize>,
    /// Packets of a turn, in place of the scenario's time.
    pub packets: Option<u64>,
    /// Frame sizes, in place of the scenario's if it has some.
    pub sizes: Vec<u32>,
    /// Rates, in place of the scenario's, for work that has a rate.
    pub rates: Vec<Rate>,
    /// Contenders, in place of the scenario's: see [`check`].
    pub contenders: Vec<String>,
    /// The seed for the order of turns.
    pub seed: u64,
    /// Whether the run is short.
    pub is_quick: bool,
    /// The program `burstline`.
    pub program: PathBuf,
    /// What was typed.
    pub command: String,
    /// Gets the lines of each trial of RFC 2544: see [`Asked::tell`](rfc2544::Asked::tell).
    pub tell_trial: fn(&str),
    /// Whether to simulate instructions and cache misses, too.
    pub is_simulated: bool,
    /// How long a run may take; turns for which there is no time are left out. `None`: as long
    /// as it takes.
    pub budget: Option<Duration>,
    /// The generator, where it is on another machine.
    pub remote: Option<Arc<Remote>>,
    /// Raised when the user wants an end.
    pub stop: Arc<AtomicBool>,
}

impl Options {
    /// A run of what was typed as `command`, with nothing changed.
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

/// The scenario as the user wants it.
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

/// Whether each contender that the user named does the scenario's work, even if the scenario does
/// not name it. And whether the work can be done as requested.
///
/// # Errors
/// One line: who does not, and who does; what cannot be done.
pub fn check(scenario: &Scenario, options: &Options) -> Result<(), String> {
    let work = scenario.work;
    let does = |adapter: &&dyn Adapter| adapter.works().contains(&work);
    let known: Vec<&str> = contenders::all().filter(does).map(Adapter::name).collect();
    let fits = |name: &String| known.contains(&name.as_str());
    let Some(name) = options.contenders.iter().find(|&name| !fits(name)) else {
        return rfc2544::check(&adjusted(scenario, options));
    };
    let (scenario, known) = (&scenario.name, known.join(", "));
    Err(format!("{scenario}: no contender `{name}` does {work}: {known}"))
}
