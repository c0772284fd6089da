//! The roles of this program as another process.

mod campaign;
mod mad;
mod storm;

use std::env;
use std::io::{self, BufRead};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use burstline_log::Ending;
use burstline_share::{AttachConfig, Attachment, PublishConfig, Publisher, published_sockets};
use rustix::process::{Resource, Rlimit, setrlimit};

use crate::common::{append, log, open, publish, read};
use crate::permissions::as_nobody;

fn arguments() -> Vec<String> {
    let text = env::var("ROLE_ARGUMENTS").expect("started by a test");
    text.split('\n').map(str::to_owned).collect()
}

/// Waits for the test's command; returns false if the test is gone.
fn wait() -> bool {
    io::stdin().lock().read_line(&mut String::new()).is_ok_and(|bytes| bytes > 0)
}

/// Returns a flag that is raised when the test commands it, or is gone.
fn told_to_stop() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let raise = Arc::clone(&stop);
    thread::spawn(move || {
        let _ = io::stdin().lock().read_line(&mut String::new());
        raise.store(true, Relaxed); // the flag orders no other memory
    });
    stop
}

fn number(text: &str) -> u64 {
    text.parse().unwrap()
}

/// Publishes a log with this number of packets, and ends it as requested.
#[test]
#[ignore = "another process of the tests"]
fn publisher() {
    let arguments = arguments();
    let (name, packets) = (&arguments[0], number(&arguments[1]));
    let (publisher, log, mut writer) = publish(&PublishConfig::new(name));
    log.name_port(0, 1, "eth0");
    println!("say epoch {}", publisher.epoch());
    wait();
    append(&mut writer, 0, packets);
    println!("say written");
    wait();
    writer.finish(Ending::Stopped);
}

/// Reads until the log ends or its writer is gone.
#[test]
#[ignore = "another process of the tests"]
fn reader() {
    let mut attachment = open(&arguments()[0]).expect("attaches");
    println!("say attached {}", attachment.readers.len());
    loop {
        let is_gone = attachment.link.is_gone();
        let mut is_finished = true;
        for reader in &mut attachment.readers {
            read(reader);
            is_finished &= reader.is_finished();
            reader.wait(1_000_000);
        }
        if is_finished || is_gone {
            break;
        }
    }
    for reader in &attachment.readers {
        let seen = reader.statistics();
        println!("say account {} {} {}", seen.delivered, seen.missed, reader.offered());
    }
}

/// Attaches and does nothing else.
#[test]
#[ignore = "another process of the tests"]
fn idler() {
    let attachment = open(&arguments()[0]).expect("attaches");
    println!("say attached {}", attachment.readers.len());
    wait();
}

/// Starts a program that does not keep open the streams from which the tests read results.
fn sleeper(seconds: &str) -> Child {
    let mut sleep = Command::new("sleep");
    sleep.arg(seconds).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    sleep.spawn().unwrap()
}

/// Attaches, and starts a program that inherits the socket.
#[test]
#[ignore = "another process of the tests"]
fn forker() {
    let attachment = open(&arguments()[0]).expect("attaches");
    let socket = attachment.link.socket();
    rustix::io::fcntl_setfd(&*socket, rustix::io::FdFlags::empty()).unwrap();
    let mut child = sleeper("60");
    println!("say child {}", child.id());
    child.wait().unwrap();
}

/// Publishes, and starts a program that outlives it.
#[test]
#[ignore = "another process of the tests"]
fn starting_publisher() {
    let (_publisher, _log, mut writer) = publish(&PublishConfig::new(&arguments()[0]));
    append(&mut writer, 0, 10);
    let mut child = sleeper("600");
    println!("say child {}", child.id());
    child.wait().unwrap();
}

/// Publishes, with a limit of this number of additional descriptors.
#[test]
#[ignore = "another process of the tests"]
fn poor_publisher() {
    let arguments = arguments();
    let (_publisher, _log, mut writer) = publish(&PublishConfig::new(&arguments[0]));
    // Open descriptors have the lowest numbers; one is that of the directory read here.
    let open = std::fs::read_dir("/proc/self/fd").unwrap().count() as u64 - 1;
    let limit = open + number(&arguments[1]);
    let both = Rlimit { current: Some(limit), maximum: Some(limit) };
    setrlimit(Resource::Nofile, both).unwrap();
    println!("say limit {limit}");
    wait();
    append(&mut writer, 0, 500);
    println!("say written");
    // A writer that is idle keeps its list of readers, and their pages.
    let mut number = 500;
    while wait() {
        append(&mut writer, number, number + 1);
        number += 1;
    }
}

/// Publishes under a name without a slash, and prints the names of this test that it sees.
#[test]
#[ignore = "another process of the tests"]
fn places() {
    let arguments = arguments();
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    let work = || {
        let (log, _writer) = log();
        let published = Publisher::start(&PublishConfig::new(&arguments[0]), vec![log]);
        match &published {
            Ok(publisher) => println!("say path {}", publisher.socket_path().display()),
            Err(error) => println!("say path {error}"),
        }
        let seen = published_sockets();
        let ours = seen.iter().filter(|path| path.ends_with(&arguments[0]));
        let seen: Vec<_> = ours.map(|path| path.display().to_string()).collect();
        println!("say seen {}", seen.join(" "));
        wait();
    };
    if arguments[1] == "nobody" { as_nobody(&[], work) } else { work() }
}

/// Gives verdicts, or is able to, until the test ends it.
#[test]
#[ignore = "another process of the tests"]
fn verdict_giver() {
    let config = AttachConfig { gives_verdicts: true, ..AttachConfig::default() };
    let _attachment = Attachment::open(&arguments()[0], &config).expect("attaches");
    println!("say giving 0");
    wait();
}
