//! A generator on another machine, controlled over a real ssh server, with a cable for frames.
//!
//! ```text
//!   near host: sshd, generator             far host: lab run, contender
//!   v0 ================ ssh =============== v1
//!   w0 =============== frames ============> w1     port, to
//!   x0 <============== frames ============= x1     back, from
//! ```

use std::net::TcpListener;
use std::path::Path;
use std::{fs, io};

use crate::support::live::wait_until;
use crate::support::ssh::Server;
use crate::support::{Directory, PROGRAM, is_root, other, run};
use burstline_skip::{skip, without};
use burstline_testbed::{Bed, Host, NEAR_ADDRESS, Program, signal};
use serde_json::Value;

/// Two machines, emulated on one.
struct Machines {
    // Dropped first: its sessions are on the near host.
    server: Server,
    bed: Bed,
}

impl Machines {
    fn or_skip(before: &[&str]) -> Option<Self> {
        if !is_root() {
            skip("sshd and packet sockets in namespaces take root");
            return None;
        }
        let bed = Bed::or_skip()?;
        bed.connect("w0", "w1", 1500).unwrap();
        bed.connect("x0", "x1", 1500).unwrap();
        let server = Server::on("lab-remote", &bed.near, NEAR_ADDRESS, before)?;
        Some(Self { server, bed })
    }

    /// Returns `--generator` with additional keys.
    fn generator(&self, keys: &str) -> String {
        let config = self.server.directory.file("ssh_config");
        format!(
            "ssh:{NEAR_ADDRESS},port=w0,to=w1,config={config},program={PROGRAM},connect=20s{keys}"
        )
    }

    fn scenario(&self, name: &str, text: &str) -> String {
        let file = self.server.directory.file(&format!("{name}.toml"));
        let head = format!("name = \"{name}\"\ntitle = \"t\"\nabout = \"x\"\nsizes = [64]\n");
        fs::write(&file, head + text).unwrap();
        file
    }

    /// Starts `lab run` on the far host; its output goes to files beside the records.
    fn start(&self, scenario: &str, generator: &str) -> Program {
        let folder = self.server.directory.file("");
        let script = format!(
            "exec {PROGRAM} lab run '{scenario}' --generator '{generator}' --out '{folder}' -q \
             > '{folder}/out' 2> '{folder}/err'"
        );
        self.bed.far.start("sh", &["-c", &script], &[]).unwrap()
    }

    /// Runs it to its end. Returns whether it succeeded, and its standard error.
    fn run(&self, scenario: &str, generator: &str) -> (bool, String) {
        let (is_success, _) = self.start(scenario, generator).finish().unwrap();
        (is_success, self.said())
    }

    fn said(&self) -> String {
        fs::read_to_string(self.server.directory.file("err")).unwrap()
    }

    fn record(&self, name: &str) -> Value {
        let file = self.server.directory.file(&format!("{name}.json"));
        let said = || self.said();
        let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{error}: {}", said()));
        serde_json::from_str(&text).unwrap()
    }

    /// Fails unless the generator's machine has no generator process left.
    fn assert_nothing_left(&self) {
        wait_until("the generator has ended", || generators(&self.bed.near).is_empty());
    }

    /// Returns the generator's port's count of sent frames, by its kernel.
    fn sent(&self) -> u64 {
        self.bed.near.counts("w0").sent
    }
}

/// Returns the processes on a host that are burstline.
fn generators(host: &Host) -> Vec<u32> {
    let here = host.run(|| fs::read_link("/proc/thread-self/ns/net")).unwrap();
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_it = |number: &u32| {
        let of = |file: &str| format!("/proc/{number}/{file}");
        let namespace: io::Result<_> = fs::read_link(of("ns/net"));
        let words = fs::read(of("cmdline")).unwrap_or_default();
        namespace.is_ok_and(|namespace| namespace == here) && words.starts_with(PROGRAM.as_bytes())
    };
    numbers.filter(is_it).collect()
}

fn samples(row: &Value, metric: &str) -> Vec<u64> {
    let samples = row["metrics"][metric]["samples"].as_array();
    let samples = samples.unwrap_or_else(|| panic!("{metric}: {row}"));
    samples.iter().map(|sample| sample.as_f64().unwrap() as u64).collect()
}

/// Fails unless every frame of a row is accounted for: sent + foreign = delivered + losses.
fn assert_closed(row: &Value) {
    let sum = |metric| samples(row, metric).iter().sum::<u64>();
    let losses = row["losses"].as_object().unwrap().values();
    let lost: u64 = losses.map(|packets| packets.as_u64().unwrap()).sum();
    assert_eq!(sum("sent") + sum("foreign"), sum("packets") + lost, "{row}");
}

/// Returns a clock's offset and its uncertainty, before the run and after.
fn offsets(record: &Value, clock: &str) -> Vec<(i64, i64)> {
    let clocks = record["generator"]["clocks"].as_array().unwrap();
    let clocks = clocks.iter().filter(|found| found["clock"] == clock);
    let number = |clock: &Value, key: &str| clock[key].as_i64().unwrap();
    clocks.map(|clock| (number(clock, "offset_ns"), number(clock, "uncertainty_ns"))).collect()
}

#[test]
fn frames_of_another_machine_are_counted_and_one_record_has_both() {
    let Some(machines) = Machines::or_skip(&[]) else { return };
    let before = machines.sent();
    let text = "work = \"count\"\nrates = [20000]\npackets = 2000\nrepeats = 2\n\
                contenders = [\"burstline-afpacket\", \"burstline-xdp\", \"recvmmsg\"]\n";
    let scenario = machines.scenario("count", text);
    let (is_success, said) = machines.run(&scenario, &machines.generator(""));
    assert!(is_success && said.is_empty(), "{said}");
    let record = machines.record("count");
    let rows = record["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 3);
    for row in rows {
        assert_eq!(row["status"], "run", "{row}");
        assert_eq!(samples(row, "sent"), [2000, 2000], "{row}");
        assert_closed(row);
        assert_eq!(samples(row, "foreign"), [0, 0], "IPv6 is off, nobody has an address: {row}");
    }
    // By a counter independent of generator and lab.
    assert_eq!(machines.sent() - before, 3 * 2 * 2000);
    let generator = &record["generator"];
    assert_eq!((&generator["host"], &generator["port"]), (&NEAR_ADDRESS.into(), &"w0".into()));
    assert_eq!(generator["version"], record["version"]);
    assert_eq!(generator["machine"]["cpu"], record["machine"]["cpu"]);
    let interfaces = record["interfaces"].as_array().unwrap();
    let ends: Vec<_> = interfaces.iter().map(|end| (&end["host"], &end["name"])).collect();
    assert_eq!(format!("{ends:?}").matches("String(\"contender\"), String(\"w1\")").count(), 1);
    assert_eq!(format!("{ends:?}").matches("String(\"generator\"), String(\"w0\")").count(), 1);
    // Both machines share one clock here, so the true offset is 0.
    for clock in ["realtime", "monotonic"] {
        let offsets = offsets(&record, clock);
        assert_eq!(offsets.len(), 2, "{generator}");
        let is_within = |&(offset, uncertainty): &(i64, i64)| offset.abs() <= uncertainty;
        assert!(offsets.iter().all(is_within), "{clock}: {offsets:?}");
    }
    machines.assert_nothing_left();
    // The report includes the second machine.
    let folder = machines.server.directory.file("");
    let page = run(&["lab", "report", &folder, "-o", "-"]);
    assert!(page.stdout.contains(&format!("generator on {NEAR_ADDRESS}")), "{}", page.stderr);
}

#[test]
fn what_goes_out_again_is_counted_and_timed_by_the_generator() {
    let Some(machines) = Machines::or_skip(&[]) else { return };
    let generator = machines.generator(",back=x0,from=x1");
    let text = "contenders = [\"burstline-xdp\", \"linux-bridge\"]\nrates = [2000]\nrepeats = 1\n\
                packets = 500\n";
    let scenario = machines.scenario("bounce", &format!("work = \"switch\"\n{text}"));
    let before = machines.bed.near.counts("x0").received;
    let (is_success, said) = machines.run(&scenario, &generator);
    assert!(is_success, "{said}");
    let record = machines.record("bounce");
    let (ours, bridge) = (&record["rows"][0], &record["rows"][1]);
    assert_closed(ours);
    let came = machines.bed.near.counts("x0").received - before;
    assert_eq!(samples(ours, "packets"), [came], "{ours}");
    let why = bridge["status"].as_str().unwrap();
    assert!(why.contains("its generator cannot be on another machine"), "{why}");
    let scenario = machines.scenario("timed", &format!("work = \"latency\"\n{text}"));
    let (is_success, said) = machines.run(&scenario, &generator);
    assert!(is_success, "{said}");
    let timed = &machines.record("timed")["rows"][0];
    let counts = timed["distributions"]["latency_us"]["counts"].as_array().unwrap();
    let counted: u64 = counts.iter().map(|count| count.as_u64().unwrap()).sum();
    assert_eq!(samples(timed, "packets"), [counted], "{timed}");
    assert_eq!(counted + samples(timed, "lost")[0], 500, "{timed}");
    machines.assert_nothing_left();
    // Without a way back it is refused before anything is sent.
    let before = machines.sent();
    let (is_success, said) = machines.run(&scenario, &machines.generator(""));
    assert!(!is_success && said.contains("set back=") && said.lines().count() == 1, "{said}");
    assert_eq!(machines.sent(), before);
}

#[test]
fn a_killed_generator_is_one_line_and_its_frames_are_accounted_for() {
    let Some(machines) = Machines::or_skip(&[]) else { return };
    let text = "work = \"count\"\nrates = [5000]\npackets = 20000\nrepeats = 1\n\
                contenders = [\"burstline-afpacket\", \"burstline-xdp\"]\n";
    let scenario = machines.scenario("killed", text);
    let before = machines.sent();
    let lab = machines.start(&scenario, &machines.generator(""));
    wait_until("frames are sent", || machines.sent() - before > 500);
    let running = generators(&machines.bed.near);
    assert_eq!(running.len(), 1, "{running:?}");
    signal(running[0], "-KILL").unwrap();
    let (is_success, _) = lab.finish().unwrap();
    let said = machines.said();
    assert!(!is_success && said.lines().count() == 1, "{said}");
    assert!(said.contains(&format!("{NEAR_ADDRESS}: the generator is gone: ssh ended")), "{said}");
    let record = machines.record("killed");
    let rows = record["rows"].as_array().unwrap();
    let is_lost = |row: &&Value| row["status"] != "run";
    let lost: Vec<&Value> = rows.iter().filter(is_lost).collect();
    assert_eq!(lost.len(), 1, "the other one has a generator again: {record}");
    let other = rows.iter().find(|row| row["status"] == "run").unwrap();
    assert_eq!(samples(other, "sent"), [20_000], "{other}");
    assert_closed(other);
    // sent N + foreign 0 = delivered M, NAME n, ...
    let status = lost[0]["status"].as_str().unwrap();
    let (_, sum) =
        status.split_once("by the kernels' counts: ").unwrap_or_else(|| panic!("{status}"));
    let (given, gone) = sum.split_once(" = ").unwrap();
    let add = |text: &str| {
        let words = text.split([' ', ',']).filter_map(|word| word.parse::<u64>().ok());
        words.sum::<u64>()
    };
    assert_eq!(add(given), add(gone), "{status}");
    assert_eq!(add(given) + 20_000, machines.sent() - before, "{status}");
    machines.assert_nothing_left();
}

#[test]
fn nothing_is_left_there_of_a_run_that_is_killed_or_interrupted() {
    let Some(machines) = Machines::or_skip(&[]) else { return };
    let text = "work = \"count\"\nrates = [1000]\nseconds = 600\nrepeats = 1\n\
                contenders = [\"burstline-afpacket\"]\n";
    let scenario = machines.scenario("long", text);
    for how in ["-KILL", "-INT"] {
        let before = machines.sent();
        let lab = machines.start(&scenario, &machines.generator(""));
        wait_until("frames are sent", || machines.sent() > before);
        signal(lab.process_id(), how).unwrap();
        assert!(!lab.finish().unwrap().0, "{how}");
        machines.assert_nothing_left();
        // Its interface stays, and it has dropped uid 0: see `Road::stays`.
        wait_until("the contender has ended", || generators(&machines.bed.far).is_empty());
    }
    let doubts = machines.record("long")["doubts"].clone();
    let doubts = doubts.as_array().unwrap();
    assert!(doubts.iter().any(|doubt| doubt["name"] == "interrupted"), "{doubts:?}");
}

#[test]
fn clocks_that_are_apart_are_told_apart() {
    const APART_NS: i64 = 5_000_000_000_000;
    if !Path::new("/proc/self/ns/time").exists() {
        return without("this kernel has no time namespaces");
    }
    // unshare(1) forks: only children are in the new time namespace.
    let words = ["unshare", "--time", "--monotonic=5000", "--fork", "--kill-child"];
    let Some(machines) = Machines::or_skip(&words) else { return };
    let text = "work = \"count\"\nrates = [20000]\npackets = 1000\nrepeats = 1\n\
                contenders = [\"recvmmsg\"]\n";
    let scenario = machines.scenario("apart", text);
    let (is_success, said) = machines.run(&scenario, &machines.generator(""));
    assert!(is_success, "{said}");
    let record = machines.record("apart");
    let monotonic = offsets(&record, "monotonic");
    let is_true = |&(offset, uncertainty): &(i64, i64)| (offset - APART_NS).abs() <= uncertainty;
    assert!(monotonic.len() == 2 && monotonic.iter().all(is_true), "{monotonic:?}");
    // Counts and rates depend on neither clock.
    assert_closed(&record["rows"][0]);
}

#[test]
fn what_is_no_generator_is_one_line_and_leaves_no_record() {
    let Some(server) = Server::start("lab-faults") else { return };
    let file = |name: &str| server.directory.file(name);
    // Accepts connections but sends nothing.
    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    let mute = mute.local_addr().unwrap().port();
    let config = fs::read_to_string(file("ssh_config")).unwrap();
    let with_port = |name: &str, port: u16| {
        let known = format!("Port {}", server.port());
        fs::write(file(name), config.replace(&known, &format!("Port {port}"))).unwrap();
        format!("config={},program={PROGRAM}", file(name))
    };
    // No listener at port 1.
    let (hung, closed) = (with_port("mute", mute), with_port("closed", 1));
    let there = format!("config={}", file("ssh_config"));
    let ours = format!("{there},program={PROGRAM}");
    let script = |name: &str, text: &str| format!("{there},program={}", server.script(name, text));
    let hello = "{\"hello\":{\"protocol\":1,\"version\":\"0.0.1\",\"commit\":null,\"core\":0,\
                 \"interfaces\":[],\"machine\":{\"cpu\":\"\",\"cores\":1,\"nodes\":1,\
                 \"memory_gib\":1,\"kernel\":\"\",\"os\":\"\",\"governor\":null,\
                 \"is_virtual\":false,\"counters\":\"\"}}}";
    let newer = hello.replace("\"protocol\":1", "\"protocol\":99");
    let newer = newer.replace("0.0.1", env!("CARGO_PKG_VERSION"));
    let same = |port: &str, keys: &str| format!("ssh:127.0.0.1,port={port},to=lo,{keys}");
    let scenario = file("x.toml");
    let text = "name = \"x\"\ntitle = \"t\"\nabout = \"x\"\nwork = \"count\"\nsizes = [64]\n\
                contenders = [\"recvmmsg\"]\n";
    fs::write(&scenario, text).unwrap();
    let older = "echo \"error: unrecognized subcommand 'generator'\" >&2; exit 2";
    for (generator, wanted) in [
        (same("lo", &hung), "timed out"),
        (same("lo", &closed), "Connection refused"),
        (same("lo", &there).replace("127.0.0.1", "no.invalid"), "no.invalid"),
        (
            same("lo", &format!("{there},program=/nonexistent/burstline")),
            "no program \"/nonexistent/burstline\"",
        ),
        (same("lo", &script("hangs", "exec sleep 30")), "no answer for 16 s, see silence="),
        (same("lo", &script("noisy", "echo welcome")), "is not burstline"),
        (same("lo", &script("older", older)), "unrecognized subcommand 'generator'"),
        (same("lo", &script("other", &format!("echo '{hello}'"))), "burstline 0.0.1 there, "),
        (
            same("lo", &script("future", "echo '{\"hello\":{\"version\":\"9.0.0\"}}'")),
            "9.0.0 there",
        ),
        (
            same("lo", &script("newer", &format!("echo '{newer}'"))),
            "with protocol 99 in place of 1 there",
        ),
        (same("nope0", &ours), "no interface nope0 there"),
        (same("lo", &ours).replace("to=lo", "to=nope1"), "no interface \"nope1\" here"),
    ] {
        // An answer may take long on a slow machine. What hangs must have let ssh in before.
        let limits = match wanted {
            "timed out" | "no.invalid" => "connect=5s,silence=3s",
            "no answer for 16 s, see silence=" => "connect=15s,silence=1s",
            _ => "connect=60s,silence=30s",
        };
        let generator = format!("{generator},{limits}");
        let out = file("records");
        let flags = ["--generator", &generator, "--out", &out, "-q"];
        let refused = run(&[&["lab", "run", &scenario][..], &flags].concat());
        assert_eq!(refused.code, Some(1), "{generator}: {}", refused.stderr);
        assert_eq!(refused.stderr.lines().count(), 1, "{generator}: {}", refused.stderr);
        assert!(refused.stderr.contains(wanted), "{generator}: {}", refused.stderr);
        assert_eq!(fs::read_dir(&out).unwrap().count(), 0, "{generator}");
    }
}

#[test]
fn what_no_generator_elsewhere_can_do_is_refused() {
    let directory = Directory::new("lab-refused");
    let out = directory.file("");
    for (scenario, generator, wanted) in [
        ("copy-cost", "ssh:h,port=a", "--generator is for count, record, bounce, switch, latency"),
        ("dna-capture", "ssh:h,port=a", "its 4 ports take 4 cables"),
        ("latency", "ssh:h,port=a", "set back="),
        ("numa-rtc", "ssh:-oProxyCommand=x,port=a", "USER@HOST"),
        ("numa-rtc", "h,port=a", "ssh:HOST,port=eth1"),
    ] {
        let refused = run(&["lab", "run", scenario, "--generator", generator, "--out", &out]);
        assert_eq!(refused.code, Some(2), "{generator}: {}", refused.stderr);
        assert!(refused.stderr.contains(wanted), "{generator}: {}", refused.stderr);
    }
    // The remote side alone: it prints its hello, and ends with its input.
    let alone = other(PROGRAM, &["lab", "generator", "--port", "lo"]).unwrap();
    assert!(alone.code == Some(0) && alone.stdout.contains("{\"hello\":{"), "{}", alone.stderr);
}
