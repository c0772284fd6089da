use super::*;
use crate::contenders;

const GOOD: &str = "name = \"a-1\"\ntitle = \"t\"\nabout = \"x\"\nwork = \"count\"\n\
                    contenders = [\"recvmmsg\"]\nsizes = [64, 128]\n";

fn wrong(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

#[test]
fn built_in_scenarios_are_read_and_their_contenders_do_their_work() {
    let scenarios = built_in();
    let mut names: Vec<_> = scenarios.iter().map(|scenario| scenario.name.clone()).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), BUILT_IN.len());
    for scenario in scenarios {
        let adapters = scenario.contenders.iter().filter_map(|name| contenders::named(name));
        let mut works = adapters.map(|adapter| adapter.works().contains(&scenario.work));
        assert!(works.any(|does| does), "{}: nobody can do it", scenario.name);
        for figure in &scenario.figures {
            let name = (&scenario.name, &figure.contender);
            let is_contender = scenario.contenders.contains(&figure.contender);
            // Or a system that only the document has.
            assert!(is_contender || contenders::named(&figure.contender).is_none(), "{name:?}");
            let points = Point::all(&scenario);
            let found = points
                .iter()
                .filter_map(|point| scenario.figures_of(&figure.contender, &point.keys));
            assert!(found.into_iter().any(|found| found == figure.metrics), "{name:?}: no row");
        }
    }
}

#[test]
fn a_file_has_defaults_and_a_short_form() {
    let scenario = parse(&format!("{GOOD}[quick]\nsizes = [1518]\nrepeats = 1\n")).unwrap();
    assert_eq!((scenario.amounts.repeats, scenario.rates.as_slice()), (5, &[Rate::Max][..]));
    assert_eq!((scenario.chart.x.as_str(), scenario.chart.y.as_str()), ("size_bytes", "mpps"));
    let quick = scenario.clone().quickly();
    assert_eq!((quick.sizes, quick.amounts.repeats), (vec![1518], 1));
    assert_eq!(Point::all(&scenario).len(), 2);
}

#[test]
fn points_have_what_varies() {
    let text = format!("{GOOD}rates = [\"max\", 1000]\nplacements = [\"0>1\", \"1>0\"]\n");
    let points = Point::all(&parse(&text).unwrap());
    assert_eq!(points.len(), 8);
    let keys = serde_json::to_string(&points[3].keys).unwrap();
    assert_eq!(keys, "{\"size_bytes\":128,\"rate_pps\":1000,\"placement\":\"0>1\"}");
}

#[test]
fn errors_name_key_value_and_what_is_allowed_in_one_line() {
    let replaced = |from: &str, to: &str| GOOD.replace(from, to);
    let cases = [
        (
            replaced("\"count\"", "\"cuont\""),
            "work = \"cuont\": expected one of count, touch, copy",
        ),
        (replaced("work = \"count\"\n", ""), "work is missing: expected one of count"),
        (replaced("[64, 128]", "[64, 63]"), "sizes = 63: expected a frame size from 64 to 1518"),
        (replaced("[64, 128]", "64"), "sizes = 64: expected a list, each a frame size"),
        (
            replaced("\"recvmmsg\"", "\"snort\""),
            "contenders = \"snort\": expected one of burstline",
        ),
        (
            replaced("\"recvmmsg\"", "\"recvmmsg\", \"tcpdump\", \"recvmmsg\""),
            "contenders = \"recvmmsg\": expected each value once",
        ),
        (replaced("[64, 128]", "[64, 128, 64]"), "sizes = 64: expected each value once"),
        (replaced("\"a-1\"", "\"A 1\""), "name = \"A 1\": expected lower-case letters"),
        (format!("{GOOD}size = 64\n"), "size = 64: no such key; known keys: name, title, about"),
        (format!("{GOOD}[quick]\nrate = 1\n"), "quick.rate = 1: no such key; known keys: sizes"),
        (format!("{GOOD}ports = 17\n"), "ports = 17: expected a number from 1 to 16"),
        (
            format!("{}ports = 4\n", replaced("\"count\"", "\"bounce\"")),
            "ports = 4: expected 1: only the work count",
        ),
        (format!("{GOOD}repeats = 0\n"), "repeats = 0: expected a number from 1 to 1000"),
        (format!("{GOOD}rates = [\"fast\"]\n"), "rates = \"fast\": expected \"max\" or packets"),
        (format!("{GOOD}placements = [\"C_A\"]\n"), "placements = \"C_A\": expected \"auto\""),
        (format!("{GOOD}[chart]\nkind = \"pie\"\n"), "chart.kind = \"pie\": expected one of lines"),
        (format!("{GOOD}[chart]\nx = \"rate\"\n"), "chart.x = \"rate\": expected contender, or"),
        (
            format!("{GOOD}[[figures]]\ncontender = \"x\"\nmpps = \"much\"\n"),
            "figures.mpps = \"much\": expected a number",
        ),
        (
            format!("{GOOD}[[figures]]\ncontender = \"x\"\nmpps = nan\n"),
            "figures.mpps = nan: expected a number",
        ),
        (format!("{GOOD}link_gbps = 1e-9\n"), "link_gbps = 0.000000001: expected a number from"),
        (format!("{GOOD}cases = [\"idle\"]\n"), "cases = \"idle\": expected nothing"),
        (
            format!("{}rates = [5]\n", replaced("\"count\"", "\"copy\"")),
            "rates = \"a number\": expected \"max\"",
        ),
        (format!("{GOOD}sizes = [64]\n"), "line 7: duplicate key"),
        (format!("{GOOD}x = = 1\n"), "line 7: "),
        (String::new(), "name is missing: expected lower-case letters"),
    ];
    for (text, expected) in cases {
        let said = wrong(&text);
        assert!(said.starts_with(expected), "{said}\nnot {expected}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}
