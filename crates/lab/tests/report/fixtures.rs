//! Records with every kind of chart and plausible values.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use burstline_lab::distribution::Distribution;
use burstline_lab::record::{
    Build, Chart, ContenderInfo, Doubt, Machine, Metric, Record, Row, SCHEMA, Stage, Status,
};
use burstline_lab::reports::Collection;
use burstline_sys::temporary::TemporaryFolder;
use serde_json::{Map, Value, json};

/// A folder that is removed on drop.
pub(crate) struct Folder(TemporaryFolder);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        Self(TemporaryFolder::create(&format!("burstline-{name}-")).unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let file = self.path().join(name);
        fs::write(&file, text).unwrap();
        file
    }
}

/// Writes these records and reads them again.
pub(crate) fn collection(name: &str, records: &[Record]) -> Collection {
    let folder = Folder::new(name);
    for record in records {
        folder.write(&format!("{}.json", record.scenario), record.to_text());
    }
    Collection::read(folder.path()).unwrap()
}

/// Reads a single file.
pub(crate) fn collection_of(record: &Path) -> Collection {
    let folder = Folder::new("alone");
    folder.write("record.json", fs::read(record).unwrap());
    Collection::read(folder.path()).unwrap()
}

/// Returns one record of each kind, in the order of a report: by document, then by name.
pub(crate) fn all() -> Vec<Record> {
    vec![pipeline(), placement(), receive(), bounce(), dma(), switch(), latency(), layout()]
}

const SIZES: [u32; 8] = [64, 128, 256, 512, 768, 1024, 1280, 1500];

/// Lines, with a document's values beside them, and a contender that did not run.
pub(crate) fn receive() -> Record {
    let mut record = record("numa-rtc", "Receive and count, one core", Some("D0"));
    record.chart = chart("lines", "size_bytes", "mpps", CONTENDER);
    record.chart.x_label = "frame size, bytes with FCS".to_owned();
    for size in SIZES {
        for (name, base) in [("burstline-xdp", 3.9), ("burstline-afpacket", 1.6), ("testpmd", 3.4)]
        {
            let rate = base / (1.0 + f64::from(size) / 900.0);
            let mut row = row(name, &[("size_bytes", size.into())]);
            row.metrics.insert("mpps".into(), metric("Mpps", None, rate, 0.06));
            let line_gbps = rate * f64::from(size + 20) * 8.0 / 1e3;
            row.metrics.insert("line_gbps".into(), metric("Gbit/s", Some("line"), line_gbps, 0.06));
            row.metrics.insert("rho".into(), metric("% per Gbit/s", None, 98.0 / line_gbps, 0.05));
            row.metrics.insert("lost_percent".into(), metric("%", None, 1.7, 0.9));
            let shares = [0.5, 0.2, 0.02, 0.03, 0.1, 0.1, 0.05];
            let names = ["poll", "copy", "hash", "enqueue", "free", "idle_poll", "other"];
            let parts: Vec<_> = names.into_iter().zip(shares).collect();
            row.stages = stages(&parts, line_gbps);
            row.symbols = stages(&SYMBOLS, line_gbps);
            row.losses.insert("rx_ring_full".into(), 120 * u64::from(size));
            if name == "testpmd" {
                row.document = said(&[("mpps", if size == 64 { 11.62 } else { line(size) })]);
            }
            record.rows.push(row);
        }
        let why = "PF_RING ZC needs the kernel module pf_ring and a licence: https://www.ntop.org";
        let mut row = row("pf_ring-zc", &[("size_bytes", size.into())]);
        row.status = Status::NotRun(why.to_owned());
        row.document = said(&[("mpps", if size == 64 { 14.03 } else { line(size) })]);
        record.rows.push(row);
    }
    record.doubts.push(Doubt::new("wide-spread", "testpmd at 64 bytes: 31 % apart in 5 repeats"));
    record
}

/// Bars of rho by placement, and stages.
pub(crate) fn pipeline() -> Record {
    let mut record = record("numa-pipeline", "A receiver and two workers", Some("D0"));
    record.chart = chart("bars", "placement", "rho", CONTENDER);
    record.chart.y_label = "rho".to_owned();
    for (index, placement) in ["one core", "two cores"].into_iter().enumerate() {
        for (name, base) in [("burstline-balance", 41.0), ("scattered-pool", 63.0)] {
            let rho = base * (1.0 + 0.4 * index as f64);
            let mut row = row(name, &[("placement", placement.into())]);
            row.metrics.insert("rho".into(), metric("% per Gbit/s", Some("line"), rho, 0.1));
            row.metrics.insert("mpps".into(), metric("Mpps", None, 300.0 / rho, 0.1));
            row.stages =
                stages(&[("poll", 0.4), ("hash", 0.1), ("copy", 0.3), ("free", 0.1)], 100.0 / rho);
            if index == 0 && name == "scattered-pool" {
                row.document = said(&[("rho", 15.07)]);
            }
            record.rows.push(row);
        }
    }
    record
}

/// A heat map for each contender, a model, and cells that were not run.
pub(crate) fn placement() -> Record {
    let title = "Twelve placements over two nodes";
    let mut record = record("numa-placement", title, Some("D0"));
    record.chart = chart("heat", "placement", "mpps", "receiver_node");
    for name in ["burstline-copy", "burstline-share", "testpmd"] {
        for (column, placement) in ["A_AA", "A_AB", "A_BB"].into_iter().enumerate() {
            for node in 0..2 {
                let point = [("placement", placement.into()), ("receiver_node", node.into())];
                let mut row = row(name, &point);
                if name == "testpmd" && column == 2 {
                    let why = "it takes two nodes, and this machine has one";
                    row.status = Status::NotRun(why.to_owned());
                } else {
                    let rate = 12.0 - 2.5 * column as f64 - f64::from(node);
                    row.metrics.insert("mpps".into(), metric("Mpps", None, rate, 0.0));
                    row.status = if column == 0 { Status::Run } else { Status::Model };
                }
                record.rows.push(row);
            }
        }
    }
    record
}

/// A cumulative distribution of latencies.
pub(crate) fn bounce() -> Record {
    let mut record = record("dna-bounce", "In by one port, out by another", Some("D1"));
    record.chart = chart("cdf", "latency_us", "latency_us", CONTENDER);
    record.chart.x_label = "latency".to_owned();
    for (index, name) in ["burstline-bounce", "testpmd", "bridge"].into_iter().enumerate() {
        let sample = |rank: u32| {
            let share = (f64::from(rank) + 0.5) / 600.0;
            (18.0 + 9.0 * index as f64) * (1.0 - (1.0 - share).ln())
        };
        let mut row = row(name, &[("size_bytes", 64.into())]);
        let metric = Metric::new("us", (0..600).map(sample).collect());
        row.metrics.insert("latency_us".into(), metric);
        record.rows.push(row);
    }
    record
}

/// A calculated curve over all lengths.
pub(crate) fn dma() -> Record {
    let mut record = record("modma", "Bytes on the bus in three modes of DMA", Some("D2"));
    record.chart = chart("curve", "length", "bus_bytes", CONTENDER);
    record.chart.x_label = "length of a packet without FCS, in bytes, from the shortest".to_owned();
    record.chart.y_label = "bytes on the bus for each packet, both directions together".to_owned();
    for length in (60..=1514).step_by(2) {
        let tlps = (f64::from(length) / 256.0).ceil();
        let filled = ((f64::from(length) + 20.0 * tlps) / 64.0).ceil() * 64.0;
        let contiguous = f64::from(length) * 1.1;
        for (name, bytes) in
            [("writeback", filled + 64.0), ("inline", filled), ("contiguous", contiguous)]
        {
            let mut row = row(name, &[("length", length.into())]);
            row.status = Status::Model;
            row.metrics.insert("bus_bytes".into(), Metric::new("bytes a packet", vec![bytes]));
            record.rows.push(row);
        }
    }
    record
}

/// Bars without series, in payload, with very different values.
pub(crate) fn switch() -> Record {
    let mut record = record("ovs-architect", "Three switches between two hosts", Some("D4"));
    record.chart = chart("bars", CONTENDER, "payload_gbps", CONTENDER);
    for (name, rate) in [("bridge", 21.4), ("ovs-userspace", 0.31), ("ovs-dpdk", 6.2)] {
        let mut row = row(name, &[]);
        let metric = metric("Gbit/s", Some("payload"), rate, 0.05);
        row.metrics.insert("payload_gbps".into(), metric);
        record.rows.push(row);
    }
    record.notes.push("namespaces in place of virtual machines".to_owned());
    record
}

/// Percentiles of many packets at two rates, with their distributions.
pub(crate) fn latency() -> Record {
    let title = "How long packets take from one interface to another";
    let mut record = record("latency", title, None);
    record.chart = chart("lines", "rate_pps", "latency_p99_us", CONTENDER);
    record.chart.y_label = "us within which 99 % of packets were through".to_owned();
    for rate in [10_000, 100_000] {
        for (name, fastest) in [("burstline-xdp", 11.0), ("linux-bridge", 7.0), ("testpmd", 21.0)] {
            let count = |rank: u32| 9_000 / u64::from(rank * rank + 1) + u64::from(rank == 59);
            let bucket = |rank: u32| (fastest * 1.06_f64.powi(rank.cast_signed()), count(rank));
            let distribution = Distribution::new("us", (0..60).map(bucket));
            let mut row = row(name, &[("rate_pps", rate.into())]);
            for (figure, share) in [("p50", 0.5), ("p99", 0.99), ("max", 1.0)] {
                let metric = metric("us", None, distribution.at(share).unwrap(), 0.05);
                row.metrics.insert(format!("latency_{figure}_us"), metric);
            }
            row.distributions.insert("latency_us".to_owned(), distribution);
            record.rows.push(row);
        }
    }
    record
}

/// Bars of many names in several cases, one of them far beyond the others.
pub(crate) fn layout() -> Record {
    let title = "What it costs to come to packets, by how they lie";
    let mut record = record("layout", title, None);
    record.chart = chart("bars", "case", "ns", CONTENDER);
    record.chart.y_label = "ns per packet".to_owned();
    let names = ["contiguous", "slots", "shuffled", "shuffled-prefetch", "shuffled-spread"];
    for (far, case) in ["256", "4096", "65536"].into_iter().enumerate() {
        for (index, name) in names.into_iter().enumerate() {
            let mut row = row(&format!("layout-{name}"), &[("case", case.into())]);
            let ns = 0.9 + 7.0 * far as f64 * index as f64;
            row.metrics.insert("ns".into(), metric("ns", None, ns, 0.3));
            record.rows.push(row);
        }
    }
    record.doubts.push(Doubt::new(
        "wide-spread",
        "layout-shuffled-prefetch ns, case 65536: samples lie 31.4 % of their median apart",
    ));
    record
}

/// Function names as from samples, some of them long.
const SYMBOLS: [(&str, f64); 3] = [
    ("kernel: veth_xdp_rcv.constprop.0", 0.31),
    ("burstline: <burstline_port::xdp::port::XdpPort as burstline_port::port::Port>::lend", 0.24),
    ("/usr/lib/x86_64-linux-gnu/dpdk/pmds-23.0/librte_net_af_xdp.so.23.0", 0.04),
];

const CONTENDER: &str = "contender";

/// Returns the millions of packets a second of that size that fill 10 Gbit/s.
fn line(size: u32) -> f64 {
    10_000.0 / f64::from((size + 24) * 8)
}

/// Returns a record without rows.
pub(crate) fn record(scenario: &str, title: &str, document: Option<&str>) -> Record {
    Record {
        schema: SCHEMA.to_owned(),
        scenario: scenario.to_owned(),
        title: title.to_owned(),
        document: document.map(str::to_owned),
        about: "Numbered frames are injected into a veth interface of a network namespace, and \
                taken by each contender in turn, on one core. The injector has the other core."
            .to_owned(),
        command: format!("burstline lab run {scenario} --quick"),
        started: "2026-11-22T14:00:00Z".to_owned(),
        elapsed_s: 61.5,
        seed: 1,
        version: "0.1.0".to_owned(),
        commit: Some("b69196b".to_owned()),
        is_quick: true,
        machine: Machine {
            cpu: "AMD EPYC 7B13".to_owned(),
            cores: 2,
            nodes: 1,
            memory_gib: 23.5,
            kernel: "6.18.5".to_owned(),
            os: "Debian GNU/Linux 12 (bookworm)".to_owned(),
            governor: None,
            is_virtual: true,
            counters: "none: cycles: Operation not supported".to_owned(),
            ..Machine::default()
        },
        build: Build::default(),
        sources: BTreeMap::new(),
        generator: None,
        interfaces: Vec::new(),
        contenders: vec![ContenderInfo {
            name: "burstline-xdp".to_owned(),
            version: "burstline 0.1.0".to_owned(),
            command: "burstline count xdp:v1 --poll busy --cores 1 --json".to_owned(),
            ..ContenderInfo::default()
        }],
        chart: chart("lines", "size_bytes", "mpps", CONTENDER),
        rows: Vec::new(),
        comparison: None,
        doubts: vec![Doubt::new("missing-counters", "no hardware counters on this machine")],
        notes: Vec::new(),
    }
}

/// Returns a row that ran, without metrics.
pub(crate) fn row(contender: &str, point: &[(&str, Value)]) -> Row {
    let point: Map<String, Value> =
        point.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
    Row {
        contender: contender.to_owned(),
        point,
        status: Status::Run,
        metrics: BTreeMap::new(),
        distributions: BTreeMap::new(),
        stages: Vec::new(),
        symbols: Vec::new(),
        losses: BTreeMap::new(),
        distance_ns: None,
        rfc2544: Vec::new(),
        document: None,
    }
}

/// Returns five samples around a value, each within `spread` of it.
pub(crate) fn metric(unit: &str, basis: Option<&str>, value: f64, spread: f64) -> Metric {
    let samples = [0.0, -1.0, 0.4, 1.0, -0.3].map(|share| value * (1.0 + share * spread));
    let metric = Metric::new(unit, samples.to_vec());
    basis.map_or(metric.clone(), |basis| metric.on(basis))
}

pub(crate) fn chart(kind: &str, x: &str, y: &str, series: &str) -> Chart {
    let words = [kind, x, y, series, "", ""].map(str::to_owned);
    let [kind, x, y, series, y_label, x_label] = words;
    Chart { kind, x, y, series, y_label, x_label }
}

fn stages(shares: &[(&str, f64)], line_gbps: f64) -> Vec<Stage> {
    let stage = |(name, share): &(&str, f64)| {
        let cpu_percent = share * 100.0;
        Stage { name: (*name).to_owned(), cpu_percent, rho: cpu_percent / line_gbps }
    };
    shares.iter().map(stage).collect()
}

fn said(figures: &[(&str, f64)]) -> Option<BTreeMap<String, f64>> {
    Some(figures.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect())
}

/// Returns a size as a JSON point.
pub(crate) fn size(bytes: u32) -> (&'static str, Value) {
    ("size_bytes", json!(bytes))
}
