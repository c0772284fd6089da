//! Maps, programs and links of a thread that has given up its rights: a helper makes them.
//!
//! ```text
//!   thread ── with rights ─────────────────────────────► bpf(2)
//!      └── without ── command, numbers, files ──► loader, in the helper ──► bpf(2)
//! ```
//!
//! | command | numbers | files |
//! |---|---|---|
//! | `MAP_CREATE` | kind, bytes of key and value, entries, flags, name | |
//! | `PROGRAM_LOAD` | kind, flags, attach type, name | instructions, then maps in order of use |
//! | `LINK_CREATE` | interface, flags | the program |
//!
//! The loader copies what it gets before it checks it. It loads programs for packets only, attaches
//! them to interfaces that the job may use, and reads nothing of the kernel for the job: it has no
//! `CAP_PERFMON`.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use burstline_sys::helper;

use super::assembler::{has_foreign_names, maps_of};
use super::call::{self, Command, LinkCreate, MapCreate, Name};
use super::program::{self, ATTACH_XDP, HAS_FRAGMENTS, Loading};
use super::{Instruction, MAPPABLE, MapKind, ProgramKind};

/// The longest program, in instructions: longer than any that this crate makes.
const INSTRUCTIONS_MAX: usize = 64 << 10;
/// The largest map, in bytes of the kernel: larger than any that this crate makes.
const MAP_BYTES_MAX: u64 = 64 << 20;
/// About what the kernel takes for an entry besides its key and value: 77 bytes were seen.
const ENTRY_BYTES: u64 = 128;
/// For how many cores a map that has a value for each is counted: more than most machines have.
const CORES: u64 = 1024;
/// Words of a request without its name.
const WORDS: usize = 6;

/// A request to the loader: a command, its numbers, and a name.
struct Request {
    command: Command,
    words: [u32; WORDS],
    name: Name,
}

impl Request {
    fn encode(&self) -> Vec<u8> {
        let words = self.words.iter().flat_map(|word| word.to_ne_bytes());
        [self.command as u8].into_iter().chain(words).chain(self.name).collect()
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (&command, rest) = bytes.split_first()?;
        let (words, name) = rest.split_at_checked(WORDS * size_of::<u32>())?;
        let (words, _) = words.as_chunks::<4>();
        let words: Vec<u32> = words.iter().map(|word| u32::from_ne_bytes(*word)).collect();
        let (words, name) = (words.try_into().ok()?, name.try_into().ok()?);
        Some(Self { command: command.into(), words, name })
    }
}

/// Makes a map.
pub(super) fn create_map(request: &mut MapCreate) -> io::Result<OwnedFd> {
    let &mut MapCreate { map_type, key_size, value_size, max_entries, map_flags, map_name, .. } =
        request;
    let words = [map_type, key_size, value_size, max_entries, map_flags, 0];
    let asked = Request { command: call::MAP_CREATE, words, name: map_name };
    helper::load(&asked.encode(), &[])
        // SAFETY: the request contains no address.
        .unwrap_or_else(|| unsafe { call::bpf_open(call::MAP_CREATE, request) })
}

/// Loads a program. The verifier's log stays empty if a helper loads it.
pub(super) fn load(code: &[Instruction], loading: &Loading, log: &mut [u8]) -> io::Result<OwnedFd> {
    if !helper::is_needed() {
        return program::load(code, loading, log);
    }
    let mut code = code.to_vec();
    let mut maps = Vec::new();
    for at in maps_of(&code) {
        let map = code[at].immediate;
        let known = maps.iter().position(|known| *known == map);
        let number = known.unwrap_or(maps.len());
        if known.is_none() {
            maps.push(map);
        }
        code[at].immediate = number as i32;
    }
    let bytes: Vec<u8> = code.iter().flat_map(|one| one.to_bytes()).collect();
    let bytes = helper::bytes_to_pass(&bytes)?;
    // SAFETY: each is the descriptor of a map that lives until its program is loaded: `load_map`.
    let maps = maps.iter().map(|&map| unsafe { BorrowedFd::borrow_raw(map) });
    let files: Vec<_> = [bytes.as_fd()].into_iter().chain(maps).collect();
    let &Loading { kind, flags, attach_type, name } = loading;
    let words = [kind as u32, flags, attach_type, 0, 0, 0];
    let asked = Request { command: call::PROGRAM_LOAD, words, name };
    helper::load(&asked.encode(), &files).unwrap_or_else(|| Err(refused()))
}

/// Attaches a program to an interface.
pub(super) fn attach(request: &mut LinkCreate, program: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let words = [request.target_ifindex, request.flags, 0, 0, 0, 0];
    let asked = Request { command: call::LINK_CREATE, words, name: Name::default() };
    helper::load(&asked.encode(), &[program])
        // SAFETY: the request contains no address.
        .unwrap_or_else(|| unsafe { call::bpf_open(call::LINK_CREATE, request) })
}

/// Does what a request asks for, in a helper: see [`helper::Loader`]. `may_use` says whether the
/// job may use an interface.
///
/// # Errors
/// `EACCES` for what a job may not ask for, and errors from the kernel.
pub fn load_for_job(
    request: &[u8],
    mut files: Vec<OwnedFd>,
    may_use: &dyn Fn(u32) -> bool,
) -> io::Result<OwnedFd> {
    let Request { command, words, name } = Request::decode(request).ok_or_else(refused)?;
    match command {
        call::MAP_CREATE => map_for_job(words, name),
        call::PROGRAM_LOAD if !files.is_empty() => {
            let code = File::from(files.remove(0));
            program_for_job(words, name, &code, &files)
        }
        call::LINK_CREATE if files.len() == 1 && may_use(words[0]) => {
            let mut request = LinkCreate {
                prog_fd: files[0].as_raw_fd() as u32,
                target_ifindex: words[0],
                attach_type: ATTACH_XDP,
                flags: words[1],
            };
            // SAFETY: the request contains no address.
            unsafe { call::bpf_open(call::LINK_CREATE, &mut request) }
        }
        _ => Err(refused()),
    }
}

fn map_for_job(words: [u32; WORDS], map_name: Name) -> io::Result<OwnedFd> {
    let [map_type, key_size, value_size, max_entries, map_flags, _] = words;
    let is_known = MapKind::ALL.iter().any(|kind| *kind as u32 == map_type);
    let copies = if map_type == MapKind::PerCpuArray as u32 { CORES } else { 1 };
    let value_bytes = u64::from(value_size).saturating_mul(copies);
    let entry_bytes = value_bytes.saturating_add(u64::from(key_size) + ENTRY_BYTES);
    let bytes = u64::from(max_entries).saturating_mul(entry_bytes);
    if !is_known || bytes > MAP_BYTES_MAX || ![0, MAPPABLE].contains(&map_flags) {
        return Err(refused());
    }
    let mut request = MapCreate {
        map_type,
        key_size,
        value_size,
        max_entries,
        map_flags,
        inner_map_fd: 0,
        numa_node: 0,
        map_name,
    };
    // SAFETY: the request contains no address.
    unsafe { call::bpf_open(call::MAP_CREATE, &mut request) }
}

fn program_for_job(
    words: [u32; WORDS],
    name: Name,
    code: &File,
    maps: &[OwnedFd],
) -> io::Result<OwnedFd> {
    let [kind, flags, attach_type, ..] = words;
    let kinds = [ProgramKind::SocketFilter, ProgramKind::Xdp];
    let kind = kinds.into_iter().find(|one| *one as u32 == kind).ok_or_else(refused)?;
    let is_known = [0, HAS_FRAGMENTS].contains(&flags) && [0, ATTACH_XDP].contains(&attach_type);
    // A pipe would hold the helper up.
    if !is_known || !code.metadata()?.is_file() {
        return Err(refused());
    }
    let (mut bytes, most) = (Vec::new(), INSTRUCTIONS_MAX * size_of::<Instruction>());
    code.take(most as u64 + 1).read_to_end(&mut bytes)?;
    let (code, rest) = bytes.as_chunks::<{ size_of::<Instruction>() }>();
    if !rest.is_empty() || code.len() > INSTRUCTIONS_MAX {
        return Err(refused());
    }
    let mut code: Vec<_> = code.iter().map(|bytes| Instruction::from_bytes(*bytes)).collect();
    // Others name variables and functions of the kernel.
    if has_foreign_names(&code) {
        return Err(refused());
    }
    for at in maps_of(&code) {
        let map = usize::try_from(code[at].immediate).ok().and_then(|number| maps.get(number));
        code[at].immediate = map.ok_or_else(refused)?.as_raw_fd();
    }
    program::load(&code, &Loading { kind, flags, attach_type, name }, &mut [])
}

fn refused() -> io::Error {
    io::Error::from_raw_os_error(libc::EACCES)
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::super::Register;
    use super::*;

    #[test]
    fn requests_come_back_as_they_were_and_others_are_refused() {
        let name = call::name("bl_counters");
        let request = Request { command: call::PROGRAM_LOAD, words: [6, 32, 37, 0, 0, 9], name };
        let bytes = request.encode();
        let back = Request::decode(&bytes).unwrap();
        assert_eq!((back.command, back.words, back.name), (5, request.words, name));
        for bytes in [&[][..], &bytes[..bytes.len() - 1], &[&bytes[..], &[0]].concat()] {
            assert!(Request::decode(bytes).is_none());
        }
        let refused = |bytes: &[u8]| load_for_job(bytes, Vec::new(), &|_| true).unwrap_err();
        let unknown = Request { command: call::PROGRAM_BY_ID, ..request }.encode();
        // A kind that this crate does not make, too much memory, and a flag: BPF_F_RDONLY_PROG.
        let maps = [[4, 4, 4, 4, 0, 0], [1, 4, 4096, 1 << 20, 0, 0], [2, 4, 4, 4, 1 << 7, 0]];
        let maps = maps.map(|words| Request { command: call::MAP_CREATE, words, name }.encode());
        for bytes in [&b"text"[..], &bytes, &unknown].into_iter().chain(maps.iter().map(|m| &m[..]))
        {
            assert_eq!(refused(bytes).raw_os_error(), Some(libc::EACCES));
        }
    }

    #[test]
    fn programs_that_name_what_is_the_kernels_are_refused() {
        let none = Register::R0;
        let exit = Instruction::new(0x95, none, none, 0, 0);
        let load = |words: [u32; WORDS], code: &[Instruction]| {
            let bytes: Vec<u8> = code.iter().flat_map(|one| one.to_bytes()).collect();
            let file = helper::bytes_to_pass(&bytes).unwrap();
            let asked = Request { command: call::PROGRAM_LOAD, words, name: Name::default() };
            load_for_job(&asked.encode(), vec![file], &|_| true).unwrap_err().raw_os_error()
        };
        let xdp = [ProgramKind::Xdp as u32, 0, ATTACH_XDP, 0, 0, 0];
        // The address of a kernel's variable (BPF_PSEUDO_BTF_ID), its function (a kfunc), a map
        // that did not come along, a flag (BPF_F_SLEEPABLE), and another kind.
        let wide = |from: Register| [Instruction::new(0x18, none, from, 0, 0), exit];
        for code in [&wide(Register::R3)[..], &wide(Register::R1), &[call_of(Register::R2), exit]] {
            assert_eq!(load(xdp, code), Some(libc::EACCES));
        }
        for words in [[6, 1 << 4, ATTACH_XDP, 0, 0, 0], [6, 0, 1, 0, 0, 0], [2, 0, 0, 0, 0, 0]] {
            assert_eq!(load(words, &[exit]), Some(libc::EACCES));
        }
    }

    fn call_of(from: Register) -> Instruction {
        Instruction::new(0x85, Register::R0, from, 0, 1)
    }
}
