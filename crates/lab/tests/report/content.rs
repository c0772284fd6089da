//! Checks the contents of a report.

use burstline_lab::record::{
    BOUNCE, Cache, ContenderInfo, Distance, Interface, Metric, Record, Stage, Status,
};
use burstline_lab::reports;

use crate::fixtures::{all, collection, dma, metric, receive, record, row, size};

/// Returns the text between the first `from` and the next `to`.
fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let start = text.find(from).unwrap_or_else(|| panic!("no {from}")) + from.len();
    &text[start..start + text[start..].find(to).unwrap()]
}

/// Parses fields of CSV as in RFC 4180.
fn fields(table: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut field) = (Vec::new(), Vec::new(), String::new());
    let mut letters = table.chars().peekable();
    let mut is_quoted = false;
    while let Some(letter) = letters.next() {
        match letter {
            '"' if is_quoted && letters.peek() == Some(&'"') => field.extend(letters.next()),
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => row.push(std::mem::take(&mut field)),
            '\n' if !is_quoted => {
                row.push(std::mem::take(&mut field));
                rows.push(std::mem::take(&mut row));
            }
            _ => field.push(letter),
        }
    }
    assert!(field.is_empty() && row.is_empty(), "the last line ends");
    rows
}

#[test]
fn the_page_has_each_experiment_its_chart_and_its_record() {
    let collection = collection("whole", &all());
    let page = reports::html(&collection);
    assert!(page.starts_with("<!doctype html>\n<html lang=\"en\">"));
    assert!(page.contains("default-src 'none'") && !page.contains("src=\""), "it fetches nothing");
    for (index, entry) in collection.entries.iter().enumerate() {
        let record = &entry.record;
        let section = between(&page, &format!("<section id=\"e{}\"", index + 1), "</section>");
        assert!(section.contains(&record.title) && section.contains(&record.command));
        for width in ["wide", "narrow"] {
            assert!(section.contains(&format!("<svg class=\"{width}\"")), "{}", record.scenario);
        }
        let mark = format!("id=\"record-{}\">", index + 1);
        let json = between(section, &mark, "</script>");
        assert_eq!(Record::parse(json).unwrap(), *record, "the record is in the page as it is");
        for doubt in &record.doubts {
            // In the summary and in the section.
            assert_eq!(section.matches(&doubt.text).count(), 2, "and in the record");
            assert!(between(&page, "aria-label=\"Summary\"", "</section>").contains(&doubt.text));
        }
    }
    assert_eq!(page.matches("<svg").count(), page.matches("<desc id=").count());
    assert_eq!(page.matches("<script").count(), collection.entries.len(), "data only");
}

#[test]
fn ids_are_unique_and_tables_have_heads() {
    let page = reports::html(&collection("ids", &all()));
    let mut ids: Vec<&str> =
        page.match_indices(" id=\"").map(|(at, _)| between(&page[at..], " id=\"", "\"")).collect();
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count, "an id is there twice");
    for table in page.split("<table>").skip(1) {
        let table = between(table, "", "</table>");
        let columns = table.matches("<th scope=\"col\"").count();
        for line in between(table, "<tbody>\n", "</tbody>").lines() {
            let cells = line.matches("<td").count() + line.matches("<th scope=\"row\"").count();
            assert_eq!(cells, columns, "{line}");
        }
    }
}

#[test]
fn the_documents_figures_stand_beside_ours_even_where_nothing_ran() {
    let page = reports::html(&collection("beside", &[receive()]));
    let figures = between(&page, "<h3>Figures</h3>", "</table>");
    assert!(figures.contains("<th scope=\"col\">mpps in D0</th>"), "{figures}");
    let testpmd = figures.lines().find(|line| line.contains(">testpmd<")).unwrap();
    assert!(testpmd.contains("<td class=\"said\">11.62</td>"), "{testpmd}");
    let zc = figures.lines().find(|line| line.contains(">pf_ring-zc<")).unwrap();
    assert!(zc.contains("<td>not run</td><td class=\"said\">14.03</td>"), "{zc}");
    let why = "pf_ring-zc: not run because PF_RING ZC needs the kernel module";
    assert_eq!(page.matches(why).count(), 1, "each reason is printed once");
    assert!(page.contains("testpmd in D0: 11.62"), "and are in the chart");
}

#[test]
fn ratios_are_of_equal_points_and_the_better_side_is_above_one() {
    let page = reports::markdown(&collection("ratios", &[receive()]));
    let ratios = between(&page, "## Ours against others", "##");
    // 3.9 / 3.4 at each of the eight sizes.
    let wanted = "| numa-rtc | 1.15 | burstline-xdp | testpmd | Mpps | 8 |";
    assert!(ratios.contains(wanted), "{ratios}");
    assert!(!ratios.contains("pf\\_ring"), "what did not run is not compared");
    let mut cheaper = record("cost", "Cost", None);
    cheaper.chart.y = "cpu_ns".to_owned();
    for (name, cost) in [("burstline-xdp", 50.0), ("tcpdump", 200.0)] {
        let mut row = row(name, &[size(64)]);
        row.metrics.insert("cpu_ns".into(), metric("ns", None, cost, 0.0));
        cheaper.rows.push(row);
    }
    let page = reports::markdown(&collection("cheaper", &[cheaper]));
    assert!(
        page.contains("| cost | 4.00 | burstline-xdp | tcpdump | cpu (ns) | 1 |"),
        "less time is better: {page}"
    );
}

#[test]
fn machine_compilers_and_interfaces_are_said_where_they_are_known() {
    let mut found = receive();
    found.machine.caches = vec![Cache { level: 3, kib: 32_768, shared_by: 8, count: 2 }];
    found.machine.memory_speed = "unknown: no table".to_owned();
    found.build.rustc = "rustc 1.95.0".to_owned();
    let device = Some("0000:01:00.0 8086:10fb".to_owned());
    let (name, served_by) = ("eth7".to_owned(), "queue 0: interrupt 38 on core 3".to_owned());
    found.interfaces = vec![Interface { name, device, served_by, ..Interface::default() }];
    let texts = ["L3 2 x 32768 KiB, each of 8 cores", "unknown: no table", "rustc 1.95.0"];
    let texts = [&texts[..], &["eth7", "8086:10fb", "interrupt 38 on core 3"]].concat();
    let [known, unknown] = [("known", found), ("unknown", receive())].map(|(name, record)| {
        let collection = collection(name, &[record]);
        let html = reports::html(&collection);
        // Only the visible part of the page, without the record in it.
        let shown = html.split("<script").next().unwrap().to_owned();
        [shown, reports::markdown(&collection).replace('\\', "")]
    });
    for text in texts {
        assert!(known.iter().all(|page| page.contains(text)), "{text}: {known:?}");
        assert!(!unknown.iter().any(|page| page.contains(text)), "{text}");
    }
}

#[test]
fn a_bounce_beside_switches_is_called_one_and_has_no_ratio_to_them() {
    let mut switched = record("switched", "Switched", None);
    switched.contenders.clear();
    for (name, role) in
        [("burstline-xdp", Some(BOUNCE)), ("testpmd", Some(BOUNCE)), ("ovs-dpdk", None)]
    {
        let (name, role) = (name.to_owned(), role.map(str::to_owned));
        switched.contenders.push(ContenderInfo { name, role, ..ContenderInfo::default() });
    }
    for (name, mpps) in [("burstline-xdp", 4.0), ("testpmd", 2.0), ("ovs-dpdk", 1.0)] {
        let mut row = row(name, &[size(64)]);
        row.metrics.insert("mpps".into(), metric("Mpps", None, mpps, 0.0));
        switched.rows.push(row);
    }
    let collection = collection("bounces", &[switched]);
    let label = "burstline-xdp, bounce (no switch)";
    let markdown = reports::markdown(&collection);
    let ratios = between(&markdown, "## Ours against others", "\n##");
    let peer = "testpmd, bounce (no switch)";
    assert!(ratios.contains(&format!("| switched | 2.00 | {label} | {peer} |")), "{ratios}");
    assert!(!ratios.contains("ovs-dpdk"), "{ratios}");
    for page in [markdown, reports::html(&collection), reports::csv(&collection)] {
        // The record within the page has the role, too. A narrow chart cuts labels.
        let shown = page.split("<script").next().unwrap();
        let named = shown.matches("burstline-xdp").count();
        assert!(shown.contains(label) && named == shown.matches(&label[..25]).count(), "{shown}");
    }
}

#[test]
fn medians_are_made_anew_from_the_samples() {
    let mut edited = record("edited", "Edited", None);
    let mut row = row("burstline-xdp", &[size(64)]);
    let mut metric = metric("Mpps", None, 4.0, 0.0);
    metric.samples = vec![1.0, 3.0, 2.0];
    row.metrics.insert("mpps".into(), metric);
    edited.rows.push(row);
    let collection = collection("anew", &[edited]);
    let page = reports::html(&collection);
    let figures = between(&page, "<h3>Figures</h3>", "</table>");
    assert!(figures.contains("<td>2<small>1 to 3</small></td>"), "{figures}");
    assert!(reports::csv(&collection).contains(",2,,1 3 2\n"));
}

#[test]
fn the_same_records_make_the_same_report() {
    let (one, two) = (collection("same-1", &all()), collection("same-2", &all()));
    assert_eq!(reports::html(&one), reports::html(&two));
    assert_eq!(reports::markdown(&one), reports::markdown(&two));
    assert_eq!(reports::csv(&one), reports::csv(&two));
}

#[test]
fn csv_has_every_sample_and_can_be_read_again() {
    let collection = collection("csv", &all());
    let rows = fields(&reports::csv(&collection));
    assert_eq!(
        rows[0].join(","),
        "scenario,contender,point,status,metric,unit,basis,median,document,samples"
    );
    assert!(rows.iter().all(|row| row.len() == rows[0].len()));
    let mut lines = rows.iter().skip(1);
    for record in collection.entries.iter().map(|entry| &entry.record) {
        for row in &record.rows {
            for (name, metric) in &row.metrics {
                let line = lines.next().unwrap();
                let words = [&line[0], &line[1], &line[4], &line[5]];
                assert_eq!(words, [&record.scenario, &row.contender, name, &metric.unit]);
                let samples = line[9].split(' ').map(|sample| sample.parse::<f64>().unwrap());
                assert_eq!(samples.collect::<Vec<_>>(), metric.samples);
                // Computed from samples, which JSON rounded at the last digit.
                let median: f64 = line[7].parse().unwrap();
                assert!((median - metric.median).abs() <= 1e-12 * median.abs(), "{line:?}");
            }
            if matches!(row.status, Status::NotRun(_)) {
                let line = lines.next().unwrap();
                assert!(line[3].starts_with("not run because ") && line[9].is_empty(), "{line:?}");
            }
        }
    }
    assert!(lines.next().is_none());
}

#[test]
fn a_curve_of_thousands_of_points_makes_a_short_table_that_says_so() {
    let page = reports::markdown(&collection("curve", &[dma()]));
    let lines = page.lines().filter(|line| line.contains("| model") || line.contains("(model)"));
    let count = lines.count();
    assert!((40..=80).contains(&count), "{count} of {} rows", dma().rows.len());
    let page = reports::html(&collection("curve-page", &[dma()]));
    assert!(page.contains("more rows are in the record"));
}

#[test]
fn two_views_of_the_same_time_are_not_added_up() {
    let mut both = record("views", "Views", None);
    let mut row = row("burstline-xdp", &[size(64)]);
    row.metrics.insert("mpps".into(), metric("Mpps", None, 1.0, 0.0));
    let stage = |name: &str, rho| Stage { name: name.to_owned(), cpu_percent: rho, rho };
    row.stages = vec![
        stage("user", 70.0),
        stage("system", 7.0),
        stage("poll", 33.0),
        stage("own receive", 21.0),
    ];
    both.rows.push(row);
    let page = reports::html(&collection("views", &[both]));
    let kernel = between(&page, "rho by the kernel&#39;s account", "</svg>");
    assert!(kernel.contains(">77</text>") && !kernel.contains(">110</text>"), "{kernel}");
    assert!(between(&page, "rho by samples of what ran", "</svg>").contains(">33</text>"));
    assert!(between(&page, "rho by contenders&#39; own account", "</svg>").contains(">21</text>"));
}

#[test]
fn functions_that_ran_stand_beside_who_ran_them() {
    let mut record = receive();
    let symbol = |name: &str| Stage { name: name.to_owned(), cpu_percent: 42.5, rho: 0.0 };
    record.rows[0].symbols = vec![symbol("kernel: napi<poll>"), symbol("libc.so.6")];
    let page = reports::html(&collection("symbols", &[record]));
    let table = between(&page, "What ran, by samples", "</details>");
    assert!(table.contains("kernel: napi&lt;poll&gt;") && table.contains("42.5"), "{table}");
    let mut without = receive();
    without.rows.iter_mut().for_each(|row| row.symbols.clear());
    let without = reports::html(&collection("symbols-none", &[without]));
    assert!(!without.contains("What ran, by samples"));
}

#[test]
fn charts_stand_alone_and_say_where_they_are_from() {
    let collection = collection("alone", &all());
    let charts = reports::charts(&collection);
    let names: Vec<&str> = charts.iter().map(|chart| chart.name.as_str()).collect();
    for name in ["numa-rtc.svg", "numa-rtc-stages.svg", "latency.svg", "latency-distribution.svg"] {
        assert!(names.contains(&name), "{name} in {names:?}");
    }
    for chart in &charts {
        let entry = collection
            .entries
            .iter()
            .rev()
            .find(|entry| chart.name.starts_with(entry.file.trim_end_matches(".json")));
        let (record, text) = (&entry.unwrap().record, &chart.text);
        assert!(
            text.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"374\""),
            "{text}"
        );
        assert_eq!(text.matches("<g ").count(), text.matches("</g>").count(), "{text}");
        assert_eq!(text.matches("<svg").count(), 1, "{text}");
        let day = record.started.split('T').next().unwrap();
        for part in [day, "quick", "b69196b", "missing-counters", "prefers-color-scheme:dark"] {
            assert!(text.contains(part), "{part} in {}", chart.name);
        }
        for foreign in ["href", "url(", "<script", "NaN", "@import"] {
            assert!(!text.contains(foreign), "{foreign} in {}", chart.name);
        }
    }
}

#[test]
fn markdown_beside_charts_shows_each_of_them_once() {
    let collection = collection("beside-charts", &all());
    let page = reports::markdown_beside_charts(&collection);
    for chart in reports::charts(&collection) {
        assert_eq!(page.matches(&format!("]({})", chart.name)).count(), 1, "{}", chart.name);
    }
    assert!(!reports::markdown(&collection).contains(".svg"));
}

#[test]
fn a_distribution_is_drawn_as_it_was_counted() {
    let record = crate::fixtures::latency();
    let wanted = record.rows[0].distributions["latency_us"].clone();
    let charts = reports::charts(&collection("distribution", &[record]));
    let text = &charts.iter().find(|chart| chart.name == "latency-distribution.svg").unwrap().text;
    let [half, most, all] = [0.5, 0.99, 1.0].map(|share| wanted.at(share).unwrap());
    let said = between(text, "burstline-xdp: 50 % up to ", "; ");
    let numbers = said.replace(" 99 % up to", "").replace(" all up to", "");
    let numbers: Vec<f64> = numbers.split(", ").map(|n| n.trim().parse().unwrap()).collect();
    for (said, wanted) in numbers.iter().zip([half, most, all]) {
        assert!((said - wanted).abs() <= 1e-3 * wanted, "{said} is {wanted}");
    }
    assert!(text.contains(">99.9 %</text>") && text.contains("logarithmic"), "{text}");
    assert!(text.contains("10,000 packets a second") && text.contains("100,000 packets a second"));
}

#[test]
fn when_packets_were_lost_is_drawn_if_it_is_known_for_long_enough() {
    let mut long = receive();
    let seconds = |count| Metric::new("packets", (0..count).map(|s| f64::from(s % 7)).collect());
    long.rows[0].metrics.insert("lost_each_second".into(), seconds(60));
    long.rows[1].metrics.insert("lost_each_second".into(), seconds(3));
    let charts = reports::charts(&collection("seconds", &[long]));
    let chart = charts.iter().find(|chart| chart.name == "numa-rtc-losses.svg").unwrap();
    assert!(chart.text.contains("burstline-xdp: 0 at 0 to 3 at 59, 60 points"), "{}", chart.text);
    assert!(!chart.text.contains("burstline-afpacket"), "three seconds are none");
    let without = reports::charts(&collection("no-seconds", &[receive()]));
    assert!(without.iter().all(|chart| !chart.name.contains("losses")));
}

#[test]
fn lines_over_one_place_are_bars() {
    let mut one = receive();
    one.rows.retain(|row| row.point["size_bytes"] == 64);
    let text = &reports::charts(&collection("one-place", &[one]))[0].text;
    assert!(text.contains(">64 bytes</text>") && text.contains("<rect class=\"area"), "{text}");
    assert!(!text.contains("<path class=\"line"), "{text}");
}

#[test]
fn rows_say_how_far_apart_the_cores_were() {
    let mut record = receive();
    let page = reports::markdown(&collection("without-distances", &[record.clone()]));
    assert!(!page.contains("cores apart"), "an old record has none");
    let distance = Distance { cores: [0, 1], before_ns: 51.25, after_ns: 214.75 };
    record.rows[0].distance_ns = Some(distance);
    let again = Record::parse(&record.to_text()).unwrap();
    assert_eq!((again.rows[0].distance_ns, again.rows[1].distance_ns), (Some(distance), None));
    let page = reports::markdown(&collection("distances", &[record]));
    assert!(page.contains("| cores apart |") && page.contains("| 51 to 215 ns |"), "{page}");
}
