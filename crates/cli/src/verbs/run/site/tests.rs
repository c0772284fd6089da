use super::*;

/// Returns the faults of a text, one per line.
fn faults(text: &str) -> Vec<String> {
    let faults = Site::parse(text).err().unwrap_or_default();
    faults.iter().map(ToString::to_string).collect()
}

#[test]
fn keys_become_the_words_that_somebody_would_type() {
    let text = "[job.tap]\nverb = 'capture'\nports = ['lo']\nwrite = '/dev/null'\nrotate = []\n\
                fail-on-loss = true\nlossless = false\npackets = 5\nfilter = 'udp port 53'\n\
                [job.check]\nports = 'gen:'\nverb = 'count'\nverify = true\n";
    let site = Site::parse(text).unwrap();
    let commands: Vec<_> = site.jobs.iter().map(|job| job.command_text(true)).collect();
    assert_eq!(
        commands,
        [
            "burstline capture --write=/dev/null --fail-on-loss --packets=5 \
             '--filter=udp port 53' -- lo",
            "burstline count --verify -- gen:",
        ]
    );
}

#[test]
fn every_fault_has_its_place_and_a_remedy() {
    for (text, expected) in [
        ("", "1:1: no job: a file has a table [job.NAME] for each"),
        ("[jobs.a]\n", "1:2: unknown table or key 'jobs' (did you mean job?); a file has"),
        ("job = 5\n", "1:7: 'job' is a table for each job: [job.NAME]"),
        ("[job]\na = 5\n", "2:1: a job is a table: [job.NAME], then its keys"),
        ("[job.\"a b\"]\nverb = 'count'\nports='gen:'\n", "1:6: the name 'a b': 1 to 64 letters"),
        ("[job.a]\n", "1:6: job a: no key 'verb': add verb = \"capture\" or another of: "),
        (
            "[job.a]\nverb = 'captur'\n",
            "2:8: job a: verb: 'captur' is not a job (did you mean capt",
        ),
        ("[job.a]\nverb = 'info'\n", "2:8: job a: verb: 'info' is not a job"),
        ("[job.a]\nverb = 'count'\n", "1:6: job a: the following required arguments were not"),
        (
            "[job.a]\nverb = 'count'\nports = 'gen:'\nfiltre = 'udp'\n",
            "4:1: job a: filtre: no such key of count (did you mean filter?); keys are the flags",
        ),
        (
            "[job.a]\nverb = 'count'\nports = 'gen:'\n  packets = 'many'\n",
            "4:3: job a: invalid value 'many' for '--packets <N>': ",
        ),
        (
            "[job.a]\nverb = 'count'\nports = 'gen:'\nfail-on-loss = 'yes'\n",
            "4:1: job a: fail-on-loss: takes true or false, not a string",
        ),
        (
            "[job.a]\nverb = 'count'\nports = 'gen:'\npackets = [1, 2]\n",
            "4:1: job a: packets: takes one value, not a list of 2",
        ),
        (
            "[job.a]\nverb = 'count'\nports = 'gen:'\npackets = true\n",
            "4:1: job a: packets: takes a text or a number, not true",
        ),
        (
            "[job.a]\nverb = 'count'\nports = 'gen:'\npackets = 0x10\n",
            "4:1: job a: packets: takes a text or a number, not a number (numbers are in base 10",
        ),
        (
            "[job.a]\nverb = 'count'\nports = 'gen:'\nrestart = 'allways'\n",
            "4:1: job a: restart: 'allways': one of never, on-failure, always (did you mean alw",
        ),
        (
            "[job.a]\nverb = 'count'\nports = 'gen:'\nmissing-port = 'ignore'\n",
            "4:1: job a: missing-port: 'ignore': one of fail, wait",
        ),
        (
            "[job.a]\nverb = 'count'\nports = 'gen:'\nrestart-limit = -1\n",
            "4:1: job a: restart-limit: '-1': a number, from 0",
        ),
        (
            "[job.a]\nverb = 'count'\nports = 'gen:'\nrestart-delay = 'soon'\n",
            "4:1: job a: restart-delay: 'soon': ",
        ),
        (
            "[job.a]\nverb = 'count'\nports = 'gen:'\njson = true\n",
            "4:1: job a: json: no such key of count",
        ),
        (
            "[job.a]\nverb = 'count'\nports = '-'\n",
            "3:1: job a: '-' is standard input or output, which a service's job does not have",
        ),
        (
            "[job.a]\nverb = 'count'\nports = 'unplugged9'\n",
            "3:1: job a: there is no interface or file unplugged9; missing-port = \"wait\" starts",
        ),
        (
            "[job.a]\nverb = 'capture'\nports = 'gen:'\noutput = 'nosuch.100'\n",
            "3:1: job a: there is no interface or file nosuch.100; missing-port = \"wait\" starts",
        ),
        ("[job.a]\nverb = 'count'\nports = 'xdpp:eth0'\n", "3:1: job a: "),
        (
            "[job.a]\nverb = 'capture'\nports = 'lo'\nwrite = '/nowhere/x'\nrotate='packets:1'\n",
            "4:1: job a: create /nowhere/x: ",
        ),
        (
            "[job.a]\nverb = 'capture'\nports = 'gen:'\nwrite = '/nowhere/{a,b}'\n\
             link-types = 'split'\n",
            "5:1: job a: striped files with link-types=split begin again at each start: name one ",
        ),
        (
            "[job.a]\nverb = 'capture'\nports = 'gen:'\nwrite = '/nowhere/%c'\nG = 10\n\
             resume = true\n",
            "4:1: job a: find the files of /nowhere/%c: only %Y ",
        ),
        (
            "[job.a]\nverb = 'switch'\nconfig = '/nowhere/switch.toml'\n",
            "3:1: job a: read /nowhere/switch.toml: ",
        ),
        ("[job.a]\nverb = 'count'\nverb = 'count'\n", "3:1: duplicate key"),
        ("[job.a]\nverb = count\n", "2:8: "),
        ("[job.a\n", "1:7: "),
    ] {
        let found = faults(text);
        assert_eq!(found.len(), 1, "{text}\n{found:#?}");
        assert!(found[0].starts_with(expected), "{text}\n{}\n{expected}", found[0]);
    }
}

#[test]
fn all_faults_are_told_at_once() {
    let text = "[job.a]\nverb = 'capture'\nports = 'gen:'\nwrite = '/dev/null'\npackets = 'x'\n\
                snaplen = 'y'\nnonsense = 1\nkeep = '1s'\nresume = true\n[job.b]\nverb = 'none'\n\
                [job.c]\nverb = 'capture'\nports = 'gen:'\npublish = 'tap'\nmetrics = 'bad'\n\
                [job.d]\nverb = 'capture'\nports = 'gen:'\npublish = 'tap?mode=0600'\n";
    let found = faults(text);
    let begins = ["5:1", "6:1", "7:1", "8:1", "11:8", "16:1", "20:1"];
    assert_eq!(found.len(), begins.len(), "{found:#?}");
    for (fault, begin) in found.iter().zip(begins) {
        assert!(fault.starts_with(begin), "{begin}: {found:#?}");
    }
    assert!(found[6].ends_with("job d: publish: job c has 'tap' already"), "{}", found[6]);
}

#[test]
fn what_two_jobs_claim_in_other_words_is_found() {
    let job = |name: &str, more: &str| {
        let verb = if more.starts_with("write") { "capture" } else { "count" };
        format!("[job.{name}]\nverb = '{verb}'\nports = 'gen:'\n{more}\n")
    };
    for (one, other, expected) in [
        (
            "web = '9180'",
            "web = '127.0.0.1:9180'",
            "job b: web: job a has '127.0.0.1:9180' already",
        ),
        ("web = '9180'", "metrics = '9180'", "job b: metrics: job a has '9180' already"),
        ("write = '/tmp/o.pcap'", "write = '/tmp/./o.pcap'", "job a has '/tmp/./o.pcap' already"),
        ("write = '/tmp/o'", "write = 'file:/tmp/o'", "job a has 'file:/tmp/o' already"),
    ] {
        let found = faults(&(job("a", one) + &job("b", other)));
        assert!(found.len() == 1 && found[0].ends_with(expected), "{one} {other}: {found:#?}");
    }
    let own = job("a", "web = '9180'\nmetrics = '9180'");
    assert_eq!(faults(&own), [""; 0], "metrics and page may have one address");
    let nothing = job("a", "write = '/dev/null'") + &job("b", "write = 'file:/dev/null'");
    assert_eq!(faults(&nothing), [""; 0], "neither keeps packets");
}

#[test]
fn a_recorder_that_starts_again_keeps_its_file_whatever_its_name() {
    for (keys, is_kept) in [
        ("write = 'file:null:'", true),
        ("write = '/nowhere/10:30.pcap'", true),
        ("write = '/nowhere/{0..3}/x.pcap'", true),
        ("write = '/nowhere/{0..3}/x.pcap'\nlink-types = 'one'", true),
        ("write = '/nowhere/x.pcap'\nlink-types = 'split'", true),
        ("write = 'file:/dev/null'", false),
        ("write = '/dev/{null,zero}'", false),
        ("write = '/dev/{null,zero}'\nlink-types = 'split'", false),
    ] {
        let text = format!("[job.a]\nverb = 'capture'\nports = 'gen:'\n{keys}\n");
        let site = Site::parse(&text).unwrap();
        assert_eq!(site.jobs[0].overwrites, is_kept, "{keys}");
    }
}

#[test]
fn jobs_that_wait_for_each_other_are_found() {
    let job = |name: &str, ports: &str| {
        format!("[job.{name}]\nverb = 'capture'\nports = '{ports}'\npublish = '{name}'\n")
    };
    let circle = job("a", "log:b") + &job("b", "log:a") + &job("c", "gen:") + &job("d", "log:c");
    let found = faults(&circle);
    assert_eq!(found.len(), 2, "{found:#?}");
    assert!(found[0].starts_with("1:6: job a: waits for log b, "), "{found:#?}");
    assert_eq!(faults(&job("a", "log:a")).len(), 1);
}

#[test]
fn a_word_with_a_nul_byte_and_countless_faults_are_faults() {
    let nul = "[job.a]\nverb = 'capture'\nports = 'gen:'\nwrite = \"/tmp/a\\u0000b\"\n";
    assert!(faults(nul)[0].contains("NUL byte"), "{:?}", faults(nul));
    assert_eq!(faults(&"x=\n".repeat(200_000)).len(), FAULTS_MAX);
}

#[test]
fn a_log_of_another_job_need_not_be_there_yet() {
    let reader = "[job.reader]\nverb = 'count'\nports = 'log:made-by-a@1'\n";
    assert_eq!(faults(reader).len(), 1);
    let publisher = "[job.a]\nverb = 'capture'\nports = 'gen:'\npublish = 'made-by-a'\n";
    let site = Site::parse(&format!("{publisher}{reader}")).unwrap();
    assert_eq!(site.jobs[1].awaited(false).as_deref(), Some("log made-by-a"));
    assert_eq!(site.jobs[0].awaited(true), None);
}

#[test]
fn what_may_come_later_is_waited_for() {
    for (verb, ports) in [
        ("count", "ports = 'unplugged9'"),
        ("count", "interface = 'unplugged9'"),
        ("count", "ports = 'xdp:unplugged9'"),
        ("capture", "ports = 'gen:'\noutput = 'unplugged9.100'"),
        ("bounce", "ports = ['gen:', 'unplugged9.100']"),
    ] {
        let text = format!("[job.a]\nverb = '{verb}'\n{ports}\nmissing-port = 'wait'\n");
        let site = Site::parse(&text).unwrap();
        assert!(site.jobs[0].awaited(true).is_some(), "{ports}");
    }
}
