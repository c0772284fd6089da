//! Checks which scenarios a remote generator supports, and raises doubts about their results.
//!
//! Decision 0053: scenarios whose packets arrive on one cable and leave on at most one more.

use crate::record::{Clock, Doubt, Generator, Record};
use crate::remote::Spec;

use super::{Scenario, Work, machine};

/// Works that such a generator supports.
const WORKS: [Work; 5] = [Work::Count, Work::Record, Work::Bounce, Work::Switch, Work::Latency];

/// Maximum drift of two clocks: 1 ns in this many. Quartz is within 100 ppm, and adjtime(3) slews
/// by 500 ppm.
const DRIFT: f64 = 1e-3;

/// Checks whether a scenario can use that generator.
///
/// # Errors
/// One line.
pub fn check(scenario: &Scenario, spec: &Spec) -> Result<(), String> {
    let Scenario { name, work, ports, .. } = scenario;
    if !WORKS.contains(work) {
        let works = WORKS.map(Work::name).join(", ");
        return Err(format!("{name}: --generator is for {works}; this is {work}"));
    }
    if *ports > 1 {
        return Err(format!("{name}: its {ports} ports take {ports} cables, --generator has one"));
    }
    if work.comes_out() && spec.back.is_none() {
        return Err(format!(
            "{name}: packets go out again: set back= to the interface of {} where they come back",
            spec.host
        ));
    }
    Ok(())
}

/// Returns the doubts about a record with such a generator.
pub(super) fn doubts(record: &Record) -> Vec<Doubt> {
    let Some(generator) = &record.generator else { return Vec::new() };
    let mut doubts = moved(generator, record.elapsed_s);
    for row in &record.rows {
        let foreign = row.metrics.get("foreign").map_or(0.0, |metric| metric.samples.iter().sum());
        if foreign > 0.0 {
            let who = &row.contender;
            let text = format!("{who}: {foreign} packets came that the generator did not send");
            doubts.push(Doubt::new("foreign-packets", text));
        }
    }
    let (theirs, ours) = (&generator.commit, machine::commit());
    if *theirs != ours || ours.is_none() {
        let name = |commit: &Option<String>| commit.clone().unwrap_or_else(|| "unknown".to_owned());
        let (theirs, ours) = (name(theirs), name(&ours));
        let text = format!("commit of the generator's burstline: {theirs}; of this one: {ours}");
        doubts.push(Doubt::new("other-program", text));
    }
    doubts
}

/// Returns doubts about clocks whose offset changed by more than drift and uncertainty.
fn moved(generator: &Generator, elapsed_s: f64) -> Vec<Doubt> {
    let at = |clock: &Clock, at: &str| clock.at == at;
    let firsts = generator.clocks.iter().filter(|clock| at(clock, "before"));
    let doubt = |first: &Clock| {
        let mut others = generator.clocks.iter();
        let last = others.find(|other| other.clock == first.clock && at(other, "after"));
        let Some(last) = last else {
            let text = format!("{} clock: not compared after the run", first.clock);
            return Some(Doubt::new("clock-moved", text));
        };
        let moved = last.offset_ns.abs_diff(first.offset_ns);
        let allowed = first.uncertainty_ns + last.uncertainty_ns + (elapsed_s * 1e9 * DRIFT) as u64;
        (moved > allowed).then(|| {
            let text = format!("{first}; {last}: {moved} ns apart, {allowed} ns explained");
            Doubt::new("clock-moved", text)
        })
    };
    firsts.filter_map(doubt).collect()
}

#[cfg(test)]
mod tests {
    use super::super::built_in;
    use super::*;

    fn fits(name: &str, spec: &str) -> Result<(), String> {
        let all = built_in();
        let scenario = all.iter().find(|scenario| scenario.name == name).unwrap();
        check(scenario, &spec.parse().unwrap())
    }

    #[test]
    fn packets_have_to_come_by_one_cable() {
        let (one, two) = ("ssh:h,port=a", "ssh:h,port=a,back=b");
        for (name, spec) in [("numa-rtc", one), ("record-rate", one), ("latency", two)] {
            assert_eq!(fits(name, spec), Ok(()), "{name}");
        }
        for (name, spec, why) in [
            ("copy-cost", two, "this is copy"),
            ("numa-pipeline", two, "this is balance"),
            ("send-rate", two, "this is generate"),
            ("rfc2544", two, "this is rfc2544"),
            ("dna-capture", two, "its 4 ports take 4 cables"),
            ("dna-bounce", one, "set back="),
        ] {
            let said = fits(name, spec).unwrap_err();
            assert!(said.contains(why) && said.starts_with(name), "{said}");
        }
    }

    fn clock(at: &str, offset_ns: i64) -> Clock {
        let (clock, at) = ("realtime".to_owned(), at.to_owned());
        Clock { clock, at, offset_ns, uncertainty_ns: 100, exchanges: 9 }
    }

    #[test]
    fn a_clock_that_was_set_and_foreign_frames_are_doubts() {
        let record = |clocks: Vec<Clock>| {
            let generator = Some(Generator { clocks, ..Generator::default() });
            Record { generator, elapsed_s: 1.0, ..Record::default() }
        };
        let names = |record: &Record| {
            let doubts = doubts(record).into_iter().map(|doubt| doubt.name);
            doubts.filter(|name| name == "clock-moved").count()
        };
        let within = vec![clock("before", -5), clock("after", 1_000_195)];
        assert_eq!(names(&record(within)), 0);
        let beyond = vec![clock("before", -5), clock("after", 1_000_196)];
        assert_eq!(names(&record(beyond)), 1);
        assert_eq!(names(&record(vec![clock("before", 0)])), 1, "not compared again");
        assert_eq!(doubts(&Record::default()), []);
    }
}
