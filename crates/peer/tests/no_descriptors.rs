//! A peer connects while no descriptor is free: the thread that would accept it sleeps between two
//! attempts. The only test of its process, because it uses up the descriptors.

use std::convert::Infallible;
use std::fs::File;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use burstline_peer::{Attendant, Dialogue, Diary, Kind, Place, Socket};
use burstline_sys::temporary::TemporaryFolder;
use burstline_sys::usage;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// A dialogue that ignores all messages.
struct Deaf;

impl Dialogue for Deaf {
    type Fault = Infallible;

    fn begin(&mut self, _socket: &Socket) -> Result<(), Infallible> {
        Ok(())
    }

    fn hear(&mut self, _socket: &Socket) -> Result<(), Infallible> {
        Ok(())
    }

    fn agreed(&self) -> Option<String> {
        None
    }
}

/// Connects, and takes all remaining descriptors. Returns for how many of the next 1000 ms this
/// process ran.
fn milliseconds_of_work(path: &Path) -> (UnixStream, u64) {
    let mut all: Vec<_> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    all.pop();
    let stream = UnixStream::connect(path).unwrap();
    let before = usage::process();
    sleep(Duration::from_secs(1));
    let used = usage::process().since(&before);
    (stream, (used.user_ns + used.system_ns) / 1_000_000)
}

fn wait_for(what: impl Fn() -> bool) {
    let start = Instant::now();
    while !what() {
        assert!(start.elapsed() < Duration::from_secs(60));
        sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_thread_that_cannot_let_anybody_in_sleeps() {
    let most = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(64), ..most }).unwrap();
    let folder = TemporaryFolder::create("burstline-peer-").unwrap();
    let path = folder.path().join("socket");
    let place = Place { path: PathBuf::from(&path), kind: Kind::Stream, is_client: false };
    let diary = Arc::new(Diary::default());
    let attendant = Attendant::start(place, Arc::clone(&diary), || Deaf).unwrap();
    let (_first, worked) = milliseconds_of_work(&path);
    assert!(worked < 100, "{worked} ms without a peer");
    wait_for(|| diary.has_peer());
    let (_second, worked) = milliseconds_of_work(&path);
    assert!(worked < 100, "{worked} ms beside a peer");
    wait_for(|| diary.events().iter().any(|event| event.contains("another peer was refused")));
    drop(attendant);
}
