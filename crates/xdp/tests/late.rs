//! Maps, programs and links of a thread that is nobody: the helper of its process makes them.
#![cfg(not(miri))]

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::thread;

use burstline_sys::helper::{self, Door, Extension, Grant, GrantKind, HelperOptions};
use burstline_sys::namespace;
use burstline_sys::privileges::{self, Confinement};
use burstline_sys::temporary::TemporaryFolder;
use burstline_sys::users::{Account, effective_user};
use burstline_xdp::bpf::{
    Assembler, Attached, Link, MappedArray, Program, ProgramOptions, Register, XdpMode,
    attached_program, load_for_job, xdp_action,
};

/// The folder of the process that is the test.
const FOLDER: &str = "BURSTLINE_TEST_FOLDER";
/// The loopback's number, in every network namespace.
const LOOPBACK: u32 = 1;

/// Allows the interface that a client names, and passes the client on.
fn porter(door: &Door) {
    let listener = UnixListener::from(door.listener().try_clone_to_owned().unwrap());
    listener.set_nonblocking(false).unwrap();
    for client in listener.incoming() {
        let mut client = client.unwrap();
        let mut name = String::new();
        client.read_to_string(&mut name).unwrap();
        door.extend(Extension { interfaces: vec![name], ..Extension::default() });
        door.pass(client.as_fd(), b"asked").unwrap();
    }
}

/// Asks for the loopback, as a user does.
fn ask_for_loopback(door: &Path) {
    let mut door = UnixStream::connect(door).unwrap();
    door.write_all(b"lo").unwrap();
    door.shutdown(Shutdown::Write).unwrap();
    let _ = door.read(&mut [0]); // until the job has it
}

/// Makes a program that passes each packet and looks at a map.
fn program(map: &MappedArray) -> Program {
    let mut code = Assembler::new();
    code.load_map(Register::R1, map.map());
    code.mov(Register::R0, xdp_action::PASS).exit();
    let code = code.finish().unwrap();
    Program::load(&code, &ProgramOptions { name: "late", ..ProgramOptions::default() }).unwrap()
}

fn load_and_attach_as_nobody(folder: &Path) {
    namespace::enter_new_network().unwrap();
    let path = folder.join("door");
    let listener = UnixListener::bind(&path).unwrap();
    let options = HelperOptions {
        porter: Some(porter),
        loader: Some(load_for_job),
        grants: vec![Grant::of(path.clone(), GrantKind::Socket)],
        sockets: vec![path.clone()],
        ..HelperOptions::default()
    };
    helper::start(options, || Ok(Confinement::default())).unwrap();
    // A root who is not confined: the user. Threads have rights apart.
    let (ask, is_asked) = mpsc::channel::<()>();
    let user = thread::spawn(move || is_asked.iter().for_each(|()| ask_for_loopback(&path)));
    let nobody = Confinement { user: Some(Account::nobody()), ..Confinement::default() };
    assert!(privileges::name_confinement(nobody));
    privileges::give_up().unwrap();
    assert_ne!(effective_user(), 0);

    assert!(MappedArray::create("late", 1, 1).is_err(), "nobody has asked for an interface");
    let clients = helper::serve(listener.as_fd()).unwrap().expect("this thread needs it");
    ask.send(()).unwrap();
    drop(clients.receive().unwrap().expect("the helper lives"));
    let map = MappedArray::create("late", 1, 1).unwrap();
    assert_eq!(map.word(0, 0), 0);
    let program = program(&map);
    let attach = |index| Link::attach_xdp(&program, index, XdpMode::Generic);
    assert!(attach(LOOPBACK + 1).is_err(), "it is none of the job's");
    let link = attach(LOOPBACK).unwrap();
    let attached: Attached = attached_program(LOOPBACK).unwrap().unwrap();
    assert_eq!(attached.mode, XdpMode::Generic);
    drop(link);
    assert_eq!(attached_program(LOOPBACK).unwrap(), None);
    drop(ask);
    user.join().unwrap();
}

/// A process has one helper, so the test is a process: this program, started again with a folder.
#[test]
fn a_helper_loads_and_attaches_for_a_thread_without_rights() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        // On another thread: the test harness still has to end the process.
        let work = move || load_and_attach_as_nobody(Path::new(&folder));
        return thread::spawn(work).join().unwrap();
    }
    if effective_user() != 0 {
        burstline_skip::skip("it takes root to become another user");
        return;
    }
    let folder = TemporaryFolder::create("burstline-late-").unwrap();
    let name = "a_helper_loads_and_attaches_for_a_thread_without_rights";
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--nocapture"]).env(FOLDER, folder.path());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
}
