//! At the terminal: events are printed when they happen, the report is short, and tcpdump's
//! arguments are accepted.

use std::fs;
use std::process::{Command, Stdio};

use crate::support::endless::signal;
use crate::support::live::{Live, send_frames, wait_until};
use crate::support::sharing::Names;
use crate::support::{
    Directory, PROGRAM, REAL, REAL_PACKETS, Run, assert_says, command, other, run, run_json,
};
use burstline_testbed::{Bed, FAR, FAR_ADDRESS, NEAR};

/// Returns whether a line of `text` has the time of day followed by `what`.
fn is_told(text: &str, what: &str) -> bool {
    let is_of = |line: &str| {
        let told = line.strip_prefix("burstline: 20").and_then(|line| line.split_once(" UTC: "));
        told.is_some_and(|(time, told)| {
            time.len() == "26-11-24 19:00:00.123".len() && told.starts_with(what)
        })
    };
    text.lines().any(is_of)
}

#[test]
fn what_happens_to_an_interface_is_told_when_it_happens() {
    let Some(bed) = Bed::or_skip() else { return };
    let directory = Directory::new("terminal-link");
    let live = Live::start(&bed, &directory, &format!("count {FAR} --snaplen 1k"));
    let told = |what: &str| {
        let errors = || fs::read_to_string(&live.output).unwrap();
        wait_until(what, || is_told(&errors(), what));
    };
    told(&format!("listening on {FAR} (Ethernet, snaplen 1024, ring 32 MiB)"));
    let link = |state: &[&str]| {
        bed.far.command("ip", &[&["link", "set", FAR][..], state].concat()).unwrap();
    };
    link(&["down"]);
    told(&format!("{FAR} is down"));
    link(&["up"]);
    told(&format!("{FAR} is up again"));
    link(&["mtu", "1400"]);
    told(&format!("{FAR}: MTU 1500 became 1400"));
    bed.near.command("ip", &["link", "delete", NEAR]).unwrap();
    told(&format!("{FAR} is gone"));
    let (is_success, report) = live.end();
    let notes = report["notes"].as_array().unwrap();
    assert!(!is_success && notes.len() == 3, "down, up, MTU are in the report: {report}");
}

#[test]
fn what_happens_to_an_interface_that_is_sent_to_is_told_too() {
    let Some(bed) = Bed::or_skip() else { return };
    let directory = Directory::new("terminal-sink");
    let live = Live::start(&bed, &directory, &format!("generate --rate 1k -o {FAR}"));
    let errors = || fs::read_to_string(&live.output).unwrap();
    wait_until("sending", || is_told(&errors(), &format!("sending to {FAR}")));
    bed.far.command("ip", &["link", "set", FAR, "down"]).unwrap();
    wait_until("down", || is_told(&errors(), &format!("{FAR} is down")));
    live.interrupt();
    live.end();
}

#[test]
fn the_begin_of_losses_a_trigger_and_its_file_are_told() {
    let directory = Directory::new("terminal-news");
    // A sink without room for long frames.
    let short = format!("file:{}?segment=4k", directory.file("short"));
    let job = ["generate", "-o", &short, "--size", "9000", "--rate", "1k", "--duration", "1s"];
    let run = run(&job);
    assert!(is_told(&run.stderr, "losing packets: "), "{}", run.stderr);
    assert_eq!(run.stderr.matches("losing packets: ").count(), 1, "{}", run.stderr);
    assert!(run.stderr.contains(" so far (too_long)"), "{}", run.stderr);

    let (kept, errors) = (directory.file("kept.pcapng"), directory.file("errors"));
    let keep = ["--keep", "1h", "--after", "10ms", "--buffer", "8m", "--pages", "4k"];
    let job = [&["capture", "gen:?rate=1000", "-w", &kept], &keep[..]].concat();
    let mut child = command(&job);
    let child = child.stdout(Stdio::null()).stderr(fs::File::create(&errors).unwrap());
    let mut child = child.spawn().unwrap();
    let told = || fs::read_to_string(&errors).unwrap();
    wait_until("a file is written", || {
        // A signal before its handler is installed would end it; one may come before any packet.
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        if u64::from_str_radix(caught.trim(), 16).unwrap() >> (10 - 1) & 1 == 1 {
            signal(&child, "-USR1");
        }
        is_told(&told(), &format!("trigger: writing {kept}, "))
    });
    wait_until("it is whole", || is_told(&told(), &format!("wrote {kept}: ")));
    signal(&child, "-INT");
    assert_eq!(child.wait().unwrap().code(), Some(0), "{}", told());
}

#[test]
fn a_quiet_job_tells_nothing_and_json_stays_alone_on_standard_output() {
    let Some(bed) = Bed::or_skip() else { return };
    let directory = Directory::new("terminal-quiet");
    let [out, err] = ["out", "err"].map(|name| directory.file(name));
    for (flags, lines) in [("--quiet", [0, 0]), ("--json", [1, 1]), ("--quiet --json", [1, 0])] {
        let script = format!("{PROGRAM} count {FAR} --duration 10ms {flags} > {out} 2> {err}");
        bed.far.command("sh", &["-c", &script]).unwrap();
        let found = [&out, &err].map(|path| fs::read_to_string(path).unwrap().lines().count());
        assert_eq!(found, lines, "{flags}");
    }
}

#[test]
fn the_report_is_short_and_all_of_it_behind_a_flag() {
    let directory = Directory::new("terminal-report");
    let file = directory.file("a.pcapng");
    let job = ["capture", REAL, "-w", &file, "--snaplen", "100", "--filter", "not arp"];
    let short = run(&job).stdout;
    let report = run_json(&job, 0);
    let number = |key: &str| report["total"][key].as_u64().unwrap();
    let lines: Vec<&str> = short.lines().collect();
    assert_eq!(lines[0], format!("received {REAL_PACKETS} packets from {REAL}"));
    let bytes = number("bytes");
    let wanted =
        format!("captured {} packets, {:.2} kB to {file}", number("delivered"), bytes as f64 / 1e3);
    assert_eq!(lines[1], wanted);
    let filtered = report["total"]["lost"]["filtered"].as_u64().unwrap();
    assert_eq!(
        lines[2],
        format!("left out {filtered} filtered: the filter rejected it (not a loss)")
    );
    assert!(
        lines[3].starts_with(&format!(
            "cut      {} packets truncated by snaplen; ",
            number("truncated")
        ))
    );
    let times = report["packet_times_ns"].as_array().unwrap();
    let seconds = (times[1].as_u64().unwrap() - times[0].as_u64().unwrap()) as f64 / 1e9;
    assert!(
        lines[4].starts_with("traffic  ") && lines[4].ends_with(&format!(" over {seconds:.3} s")),
        "{short}"
    );
    assert_eq!(lines[5..], ["done: no packets lost, 0 unaccounted"], "{short}");
    let long = run(&[&job[..], &["-v"]].concat()).stdout;
    for word in ["offered", "rate ", "cpu ", "rho ", "stage ", "memory "] {
        assert!(long.contains(word) && !short.contains(word), "{word}: {short}{long}");
    }
    assert_eq!(long.lines().last(), lines.last().copied());
    let one = run(&["count", REAL, "-c", "1"]).stdout;
    assert!(one.contains("counted  1 packet, ") && !one.contains("\ntraffic"), "{one}");
}

#[test]
fn an_idle_job_shows_no_share_of_a_core_per_rate() {
    let text = run(&["count", "gen:?rate=10", "--duration", "150ms", "-v"]).stdout;
    assert!(text.contains("rho      unknown: less than 10 Mbit/s of line rate"), "{text}");
}

#[test]
fn words_of_tcpdump_are_taken() {
    let directory = Directory::new("terminal-words");
    let file = directory.file("a.pcapng");
    let wanted = run_json(&["count", REAL, "--filter", "udp port 53"], 0);
    let dns = &wanted["total"]["delivered"];
    assert!(dns.as_u64() > Some(0), "{wanted}");
    for job in [
        &["count", "-n", "-r", REAL, "udp port 53"][..],
        &["count", "-nr", REAL, "udp", "port", "53"],
        &["count", REAL, "udp", "port", "53"],
        &["count", REAL, "(udp", "port", "53)", "-s", "64"],
        &["merge", REAL, "udp", "port", "53"],
        &["balance", "-r", REAL, "--workers", "2", "udp port 53"],
        &["capture", "-nr", REAL, "-w", &file, "udp", "port", "53"],
        &["count", "-r", &file],
    ] {
        let report = run_json(job, 0);
        assert_eq!(&report["total"]["delivered"], dns, "{job:?}: {report}");
    }
    let cut = run_json(&["count", "-c", "3", "-s", "60", "-r", REAL], 0);
    assert_eq!(cut["total"]["delivered"], 3, "{cut}");
    assert!(cut["total"]["bytes"].as_u64() <= Some(180), "{cut}");
    for (job, words) in [
        (&["count", REAL, "--filter", "udp", "tcp"][..], "two filters: --filter, and 'tcp' behind"),
        (&["count", REAL, "udp", "prot", "53"], "syntax error"),
        (&["count", "udp", "port", "53"], "'udp' is neither a network interface"),
    ] {
        let run = run(job);
        assert!(run.code > Some(0) && run.stderr.contains(words), "{job:?}: {}", run.stderr);
        assert_eq!(run.stderr.lines().count(), 1, "{job:?}: {}", run.stderr);
    }
    // A file whose name could begin a filter is a file if no source precedes it.
    fs::copy(REAL, directory.file("udp")).unwrap();
    let here =
        |job: &[&str]| -> Run { command(job).current_dir(&directory.0).output().unwrap().into() };
    assert_eq!(here(&["count", "udp"]).code, Some(0));
    assert_eq!(here(&["count", "-r", "udp", "./udp"]).code, Some(0));
    let torn = here(&["count", "udp", "udp"]);
    let asks = torn.stderr.contains("write afpacket:udp or ./udp for a source");
    assert!(torn.code == Some(2) && asks, "{}", torn.stderr);
}

#[test]
fn the_interfaces_are_listed_by_any_verb_with_sources() {
    for verb in ["count", "capture", "merge", "balance"] {
        let listed = run(&[verb, "-D"]);
        assert_eq!((listed.code, listed.stderr.as_str()), (Some(0), ""), "{verb}");
        assert!(listed.stdout.lines().any(|line| line.starts_with("lo ")), "{}", listed.stdout);
        assert!(listed.stdout.ends_with(" all interfaces that are up\n"), "{}", listed.stdout);
    }
    assert_says(&["count", "-D", REAL], 2, "--list-interfaces");
}

#[test]
fn any_is_every_interface_that_is_up_and_each_packet_keeps_its_own() {
    let Some(bed) = Bed::or_skip() else { return };
    let directory = Directory::new("terminal-any");
    let file = directory.file("a.pcapng");
    let ip = |words: &[&str]| bed.far.command("ip", words).unwrap();
    ip(&["link", "set", "lo", "up"]);
    ip(&["link", "add", "down0", "type", "veth", "peer", "name", "down1"]);
    let live = Live::start(
        &bed,
        &directory,
        &format!("capture -i any -w {file} icmp or ether proto 0x88b5"),
    );
    let errors = fs::read_to_string(&live.output).unwrap();
    for interface in ["lo", FAR] {
        assert!(is_told(&errors, &format!("listening on {interface} (Ethernet, ")), "{errors}");
    }
    assert!(!errors.contains("down0"), "{errors}");
    bed.far.command("ping", &["-q", "-c", "3", "-i", "0.01", FAR_ADDRESS]).unwrap();
    send_frames(&bed, 10);
    wait_until("they came", || live.text().contains("\"delivered\":16"));
    live.interrupt();
    let (is_success, report) = live.end();
    let ports = report["ports"].as_array().unwrap();
    let by_port: Vec<_> = ports.iter().map(|row| (&row["port"], &row["delivered"])).collect();
    assert!(is_success && ports.len() == 2, "{report}");
    for (port, packets) in [("lo", 6), (FAR, 10)] {
        assert!(by_port.contains(&(&port.into(), &packets.into())), "{report}");
    }
    let fields = ["-r", &file, "-T", "fields", "-e", "frame.interface_name"];
    if let Some(found) = other("tshark", &fields) {
        let of = |name: &str| found.stdout.lines().filter(|line| *line == name).count();
        assert_eq!([of("lo"), of(FAR)], [6, 10], "{}{}", found.stdout, found.stderr);
    }
}

/// Returns bash's completions for a line whose last word is being typed.
fn completed(names: &Names, script: &str, line: &str) -> Vec<String> {
    let folder = PROGRAM.rsplit_once('/').unwrap().0;
    // Like readline, where a colon ends a word. Source: bash(1), COMP_WORDBREAKS.
    let driver = r#"
source "$1"
COMP_LINE=$2 COMP_POINT=${#2}
spaced=${2//:/ : }
read -ra COMP_WORDS <<< "$spaced"
[[ $2 == *[[:space:]:] ]] && COMP_WORDS+=("")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}
[[ $word == : ]] && word=""
$(complete -p burstline | sed 's/.*-F \([a-z_]*\).*/\1/') burstline "$word" "$before"
printf '%s\n' "${COMPREPLY[@]}"
"#;
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", driver, "bash", script, line]).env("BURSTLINE_RUN", &names.0.0);
    let path = format!("{folder}:{}", std::env::var("PATH").unwrap_or_default());
    let run = Run::from(bash.env("PATH", path).current_dir(&names.0.0).output().unwrap());
    assert_eq!(run.stderr, "", "{line}");
    run.stdout.lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_interfaces_and_published_logs() {
    let names = Names::new("terminal-bash");
    let script = names.0.file("script");
    fs::write(&script, run(&["completions", "bash"]).stdout).unwrap();
    fs::write(names.0.file("local.pcap"), "").unwrap();
    let publishing = names.start(&["capture", "gen:?rate=1000", "--publish", "tap"]);
    names.wait_for_readers("tap", 0);
    let offered = |line: &str| completed(&names, &script, line);
    for (line, wanted) in [
        ("burstline count l", &["lo", "log:tap", "log:", "local.pcap"][..]),
        ("burstline capture -i l", &["lo", "log:tap"]),
        ("burstline capture -w x eth0 an", &["any"]),
        ("burstline capture -o xd", &["xdp:"]),
        ("burstline bounce xdp:eth0 gen:?size=64 x", &["xdp:"]),
        // Readline replaces only the part after the colon.
        ("burstline count log:t", &["tap"]),
        ("burstline count --poll b", &["busy"]),
        ("burstline cou", &["count"]),
        ("burstline count --pack", &["--packets"]),
    ] {
        let offered = offered(line);
        for word in wanted {
            assert!(offered.iter().any(|known| known == word), "{line}: {word}: {offered:?}");
        }
        let has_ports = offered.iter().any(|known| known == "lo");
        assert_eq!(has_ports, wanted.contains(&"lo"), "{line}: {offered:?}");
    }
    drop(publishing);
    for (shell, word) in
        [("zsh", "compadd -a ports"), ("fish", "-a \"(burstline completions --words")]
    {
        let script = run(&["completions", shell]).stdout;
        assert!(
            script.contains(word) && !script.contains("hosts") && !script.contains("hostnames"),
            "{shell}"
        );
    }
}

#[test]
fn a_name_neither_moves_the_cursor_nor_forges_a_line_of_a_report() {
    let directory = Directory::new("terminal-names");
    let evil = directory.file("a\u{1b}[2J\ndone: no packets lost, 0 unaccounted\u{202e}.pcap");
    std::fs::copy(REAL, &evil).unwrap();
    let late = format!("{evil}=1ms");
    let out = directory.file("b\u{1b}[2J\ndone: no packets lost, 0 unaccounted\u{61c}");
    let jobs = [
        vec!["merge", &evil, "--offset", &late, "-w", "/dev/null", "-v"],
        vec!["balance", REAL, "--workers", "1", "-o", &out, "-v"],
        vec!["recover", REAL, "-w", &out],
        vec!["count", &evil],
        vec!["count", "-v", &evil],
        vec!["count", &evil, &evil],
        vec!["info", &evil],
        vec!["check", &evil],
        vec!["index", &evil],
        vec!["recover", &evil, "-w", &evil],
        vec!["count", "nobody\u{1b}[2J\ndone"],
        vec!["doctor", "logs", "./nobody\u{1b}[2J\ndone"],
    ];
    for job in jobs {
        let run = run(&job);
        let said = run.stdout + &run.stderr;
        assert!(!said.contains(['\u{1b}', '\u{202e}', '\u{61c}']), "{job:?}: {said:?}");
        let forged =
            said.lines().filter(|line| line.starts_with("done: no packets lost, 0 unaccou"));
        assert!(forged.count() <= 1, "{job:?}: {said}");
        assert!(said.contains("\\u001b[2J") || said.contains("..."), "{job:?}: {said}");
    }
}

/// A pcapng of a packet, whose interface and comments say what a terminal obeys.
fn with_evil_texts() -> Vec<u8> {
    let text = b"a\x1b[2J";
    let option =
        |code: u16| [&code.to_le_bytes()[..], &5_u16.to_le_bytes(), text, &[0; 3]].concat();
    let block = |kind: u32, body: &[u8]| {
        let bytes = (12 + body.len() as u32).to_le_bytes();
        [&kind.to_le_bytes(), &bytes, body, &bytes].concat()
    };
    let section = [&0x1a2b_3c4d_u32.to_le_bytes()[..], &[1, 0, 0, 0], &[0xff; 8], &option(1)];
    let interface = [&[1, 0, 0, 0, 0, 0, 4, 0][..], &option(1), &option(2), &option(3)];
    let packet = [&[0; 12][..], &[60, 0, 0, 0, 60, 0, 0, 0], &[0; 60], &option(1)];
    [(0x0a0d_0d0a, section.concat()), (1, interface.concat()), (6, packet.concat())]
        .map(|(kind, body)| block(kind, &body))
        .concat()
}

#[test]
fn names_of_interfaces_and_comments_of_files_are_written_out() {
    let directory = Directory::new("terminal-interfaces");
    let (file, copy) = (directory.file("x.pcapng"), directory.file("y.pcapng"));
    fs::write(&file, with_evil_texts()).unwrap();
    let jobs: [&[&str]; 5] = [
        &["count", "-v", &file],
        &["info", &file],
        &["check", &file],
        &["capture", &file, "-w", &copy],
        &["info", &copy],
    ];
    let assert_harmless = |said: &str, job: &[&str]| {
        assert!(!said.contains('\u{1b}'), "{job:?}: {said:?}");
    };
    for job in jobs {
        let run = run(job);
        assert_eq!(run.code, Some(0), "{job:?}: {}{}", run.stdout, run.stderr);
        assert_harmless(&(run.stdout + &run.stderr), job);
    }
    let Some(bed) = Bed::or_skip() else { return };
    let name = "a\u{1b}[2J";
    bed.far.command("ip", &["link", "add", name, "type", "veth", "peer", "name", "b"]).unwrap();
    let address = format!("afpacket:{name}");
    for job in
        [&["count", &address, "--duration", "50ms"][..], &["capture", "-D"], &["count", name, "x"]]
    {
        let script = [&["-c", "\"$@\" 2>&1; true", "sh", PROGRAM][..], job].concat();
        let said = bed.far.command("sh", &script).unwrap();
        assert!(said.contains("\\u001b[2J"), "{job:?}: {said:?}");
        assert_harmless(&said, job);
    }
}
