use serde_json::Map;

use super::*;
use crate::record::{Distance, Status};
use crate::scenario::parse;

fn scenario(more: &str) -> Scenario {
    let text = "name = \"a\"\ntitle = \"t\"\nabout = \"x\"\nwork = \"count\"\n\
                contenders = [\"recvmmsg\"]\nsizes = [64]\n";
    parse(&format!("{text}{more}")).unwrap()
}

fn row(metrics: &[(&str, &[f64])]) -> Row {
    let mut point = Map::new();
    point.insert("size_bytes".to_owned(), 64.into());
    let metric =
        |&(name, samples): &(&str, &[f64])| (name.to_owned(), Metric::new("x", samples.to_vec()));
    Row {
        contender: "recvmmsg".to_owned(),
        point,
        status: Status::Run,
        metrics: metrics.iter().map(metric).collect(),
        distributions: [].into(),
        stages: Vec::new(),
        symbols: Vec::new(),
        losses: std::collections::BTreeMap::new(),
        distance_ns: None,
        rfc2544: Vec::new(),
        document: None,
    }
}

fn of(scenario: &Scenario, rows: &[Row]) -> Vec<(String, String)> {
    let machine = Machine { counters: "cycles".to_owned(), ..Machine::default() };
    let doubts = of_rows(scenario, &machine, rows);
    doubts.into_iter().map(|doubt| (doubt.name, doubt.text)).collect()
}

#[test]
fn good_rows_give_no_doubt() {
    let fine: &[(&str, &[f64])] = &[("mpps", &[1.0, 1.01, 1.02]), ("line_percent", &[7.0; 3])];
    let lossy: &[(&str, &[f64])] =
        &[("mpps", &[1.0; 3]), ("offered_mpps", &[2.0; 3]), ("lost", &[9.0; 3])];
    assert_eq!(of(&scenario(""), &[row(fine), row(lossy)]), []);
}

#[test]
fn each_doubt_has_its_number() {
    let rows = [
        row(&[("mpps", &[1.0, 1.2])]),
        row(&[("mpps", &[1.0, 1.0, 1.0]), ("line_percent", &[120.0; 3])]),
        row(&[("mpps", &[1.0; 3]), ("offered_mpps", &[1.0; 3]), ("lost", &[0.0; 3])]),
    ];
    let doubts = of(&scenario(""), &rows);
    let text = |name: &str| &doubts.iter().find(|doubt| doubt.0 == name).unwrap().1;
    assert_eq!(text("too-few-samples"), "recvmmsg at size_bytes 64: 2 of 3 samples");
    assert!(text("wide-spread").contains("1 of 3 rows"), "{doubts:?}");
    assert!(text("wide-spread").ends_with("18.2 % in 2 repeats"), "{doubts:?}");
    assert!(text("above-line-rate").contains("120 % of 10 Gbit/s"), "{doubts:?}");
    assert!(text("generator-limited").contains("1.000 Mpps is the generator's limit"));
    assert_eq!(doubts.len(), 4);
}

#[test]
fn a_generator_that_does_not_reach_its_rate_is_said_unless_packets_were_lost() {
    let paced = scenario("rates = [2000000]\n");
    let row = |offered: f64, lost: f64| {
        let mut row = row(&[("mpps", &[1.0; 3])]);
        row.point.insert("rate_pps".to_owned(), 2_000_000.into());
        row.metrics.insert("offered_mpps".to_owned(), Metric::new("Mpps", vec![offered; 3]));
        row.metrics.insert("lost".to_owned(), Metric::new("packets", vec![lost; 3]));
        row
    };
    assert_eq!(of(&paced, &[row(1.99, 0.0), row(1.5, 3.0)]), []);
    let doubts = of(&paced, &[row(1.5, 0.0)]);
    assert!(doubts[0].1.contains("1.500 of 2.000 Mpps were offered"), "{doubts:?}");
}

#[test]
fn other_programs_and_the_host_are_told_from_our_own_work() {
    let stat = |user: u64, idle: u64, steal: u64| {
        format!("cpu  {user} 0 0 {idle} 0 0 0 {steal}\ncpu0 1\ncpu1 1\n")
    };
    let read = |text: &str, own| Ticks::parse(text, own).unwrap();
    let start = read(&stat(100, 100, 0), 50);
    let since = |text: &str, own| of_ticks(read(text, own).since(start));
    // 200 ticks of two cores: 100 in programs, 90 of them ours.
    assert_eq!(
        since(&stat(200, 200, 0), 140),
        [Doubt::new("noisy-neighbour", "0.10 cores were busy with other programs")]
    );
    assert_eq!(since(&stat(200, 200, 0), 150), []);
    let stolen = since(&stat(100, 290, 10), 50);
    assert_eq!(stolen, [Doubt::new("steal-time", "the host took 5.0 % of the cores' time")]);
    assert_eq!(since(&stat(100, 100, 0), 50), []);
}

#[test]
fn turns_that_give_other_ratios_are_a_doubt_and_a_common_drift_is_none() {
    let of_both = |first: &[f64], second: &[f64]| {
        let (mut x, mut y) = (row(&[("mpps", first)]), row(&[("mpps", second)]));
        (x.contender, y.contender) = ("x".to_owned(), "y".to_owned());
        let doubts = of(&scenario(""), &[x, y]);
        doubts.into_iter().find(|doubt| doubt.0 == "ratio-spread").map(|doubt| doubt.1)
    };
    // The machine is half as fast in the third turn, for both.
    assert_eq!(of_both(&[4.0, 4.1, 2.0], &[2.0, 2.05, 1.0]), None);
    let text = of_both(&[4.0, 4.0, 4.0, 4.0, 4.0], &[2.0, 1.6, 2.0, 1.6, 2.0]).unwrap();
    assert!(text.contains("of 1 of 1 pairs of contenders"), "{text}");
    assert!(text.ends_with("x by y at size_bytes 64: 2.000 to 2.500, 25.0 %"), "{text}");
    // Two turns are too few to judge the spread, and unequal numbers of turns cannot be paired.
    assert_eq!(of_both(&[4.0, 8.0], &[2.0, 2.0]), None);
    assert_eq!(of_both(&[4.0, 8.0, 4.0, 8.0], &[2.0, 2.0, 2.0]), None);
}

#[test]
fn points_whose_cores_moved_are_named_with_their_rows() {
    let at = |contender: &str, size_bytes: u32, before_ns, after_ns| {
        let mut row = row(&[("mpps", &[1.0; 3])]);
        row.contender = contender.to_owned();
        row.point.insert("size_bytes".to_owned(), size_bytes.into());
        row.distance_ns = Some(Distance { cores: [0, 1], before_ns, after_ns });
        row
    };
    let text = |rows: &[Row]| {
        let found = of(&scenario(""), rows).into_iter();
        found.filter(|doubt| doubt.0 == "distance-changed").map(|doubt| doubt.1).next()
    };
    assert_eq!(text(&[row(&[("mpps", &[1.0; 3])]), at("a", 64, 50.0, 99.0)]), None);
    let rows = [
        at("a", 64, 50.0, 215.0),
        at("b", 64, 50.0, 215.0),
        at("a", 128, 50.0, 52.0),
        at("a", 256, 52.0, 26.0),
    ];
    assert_eq!(
        text(&rows).unwrap(),
        "a cache line took from core to core 50 to 215 ns at size_bytes 64 (a, b); \
         52 to 26 ns at size_bytes 256 (a)"
    );
}

#[test]
fn functions_of_no_known_stage_are_a_doubt_when_they_are_many() {
    let of_other = |percent: f64| {
        let mut row = row(&[("mpps", &[1.0; 3])]);
        let stage =
            |name: &str, cpu_percent| Stage { name: name.to_owned(), cpu_percent, rho: 0.0 };
        row.stages = Part::ALL.map(|part| stage(part.name(), 0.0)).to_vec();
        row.stages.push(stage("user", 100.0));
        row.stages[0].cpu_percent = 100.0 - percent;
        row.stages[Part::ALL.len() - 1].cpu_percent = percent;
        row.stages[Part::ALL.len() - 1].cpu_percent += 100.0;
        let strangers = stage("other programs", 100.0);
        row.symbols = vec![strangers, stage("kernel: memcpy", 60.0), stage("new_program", percent)];
        let doubts = of(&scenario(""), &[row]);
        doubts.into_iter().find(|doubt| doubt.0 == "unknown-stages").map(|doubt| doubt.1)
    };
    assert_eq!(of_other(30.0), None);
    let text = of_other(31.0).unwrap();
    assert!(text.ends_with("31 % of it in functions of unknown stages: new_program"), "{text}");
}

#[test]
fn the_page_has_every_doubt_and_no_other() {
    let page = include_str!("../../../../../docs/scenarios.md");
    let table = page.split("| doubt | when |").nth(1).unwrap().split("\n\n").next().unwrap();
    let rows = table.lines().filter_map(|row| row.strip_prefix("| `")?.split_once("` | "));
    let rows: Vec<_> = rows.map(|(name, when)| (name, when.trim_end_matches(" |"))).collect();
    let known = KNOWN.iter().map(|known| (known.name, known.when));
    let plain: Vec<_> = rows.iter().map(|(name, when)| (*name, when.replace('`', ""))).collect();
    assert_eq!(known.map(|(name, when)| (name, when.to_owned())).collect::<Vec<_>>(), plain);
}
