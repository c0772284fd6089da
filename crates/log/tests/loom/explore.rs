//! Explores models, and says in how many executions.
//!
//! [`exhaust`] tries every order; the tests that it is for hold in all of them. [`bounded`] tries
//! the orders in which threads are preempted at most a few times: for models that are too large to
//! exhaust (BURSTLINE_LOOM=whole exhausts them, too, however long that takes). Names of such tests
//! end in `_bounded`, which a test of this module checks. Campaign R21 counts them by that name.
//!
//! Loom's own limits from the environment (LOOM_MAX_DURATION and the like) are not used, because
//! they end an exploration early and without a word.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use loom::model::Builder;

/// Explores every order of a model.
pub(super) fn exhaust(model: impl Fn() + Sync + Send + 'static) -> u64 {
    explore(None, model)
}

/// Explores the orders of a model in which threads are preempted at most `preemptions` times.
pub(super) fn bounded(preemptions: usize, model: impl Fn() + Sync + Send + 'static) -> u64 {
    let is_whole = std::env::var_os("BURSTLINE_LOOM").is_some();
    explore((!is_whole).then_some(preemptions), model)
}

/// Returns how many executions it took, and prints it.
fn explore(bound: Option<usize>, model: impl Fn() + Sync + Send + 'static) -> u64 {
    let executions = Arc::new(AtomicU64::new(0));
    let mut builder = Builder::new();
    builder.preemption_bound = bound;
    builder.max_permutations = None;
    builder.max_duration = None;
    builder.check({
        let executions = Arc::clone(&executions);
        move || {
            executions.fetch_add(1, Relaxed);
            model();
        }
    });
    let executions = executions.load(Relaxed);
    println!("explored in {executions} executions");
    executions
}

/// Returns the tests in `source` whose text has `call`.
fn tests_that<'s>(source: &'s str, has: impl Fn(&str) -> bool) -> Vec<&'s str> {
    let tests = source.split("#[test]").skip(1);
    let tests = tests.filter_map(|test| test.split_once("\nfn ")?.1.split_once("() {"));
    tests.filter(|(_, rest)| has(rest.split("\n}").next().unwrap())).map(|(name, _)| name).collect()
}

#[test]
fn bounded_models_are_named_so() {
    let sources = [
        include_str!("../loom.rs"),
        include_str!("deaths.rs"),
        include_str!("follow.rs"),
        include_str!("pins.rs"),
        include_str!("unlocked.rs"),
        include_str!("verdicts.rs"),
    ];
    for source in sources {
        let bounded = tests_that(source, |body| body.contains("bounded("));
        let named = tests_that(source, |_| true).into_iter();
        assert_eq!(bounded, named.filter(|name| name.ends_with("_bounded")).collect::<Vec<_>>());
    }
}
