//! Filters: compiled by the real library, and executed here before a packet is read.

use std::ffi::{c_char, c_int};

use burstline_wire::filter::{INSTRUCTIONS_MAX, Instruction, Program};

use super::open::not_activated;
use super::ours;
use crate::abi::{BpfProgram, ERROR, Pcap};

/// Compiles an expression of pcap-filter(7).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_compile(
    pcap: *mut Pcap,
    program: *mut BpfProgram,
    text: *const c_char,
    optimize: c_int,
    netmask: u32,
) -> c_int {
    ours!(
        pcap, pcap_compile(
            program: *mut BpfProgram, text: *const c_char, optimize: c_int, netmask: u32
        ) -> c_int,
        ERROR, |slot, capture| {
            if capture.shape().is_none() {
                return not_activated(slot);
            }
            let Some(dead) = capture.dead() else {
                return slot.fail("filters need the real libpcap: apt-get install libpcap0.8");
            };
            match dead.compile(program, text, optimize, netmask) {
                Ok(()) => 0,
                Err(error) => slot.fail(&error),
            }
        }
    )
}

/// Sets a filter: from the next packet on, only packets that pass it are returned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_setfilter(pcap: *mut Pcap, program: *mut BpfProgram) -> c_int {
    ours!(pcap, pcap_setfilter(program: *mut BpfProgram) -> c_int, ERROR, |slot, capture| {
        if program.is_null() {
            return slot.fail("No filter specified");
        }
        // SAFETY: guaranteed by the C caller (module `exports`).
        let (count, first) = unsafe { ((*program).count as usize, (*program).instructions) };
        if first.is_null() || count > INSTRUCTIONS_MAX {
            return slot.fail(&format!(
                "the filter has {count} instructions: there must be 1-{INSTRUCTIONS_MAX}"
            ));
        }
        // SAFETY: the C caller guarantees that the program has this number of instructions.
        let instructions = unsafe { std::slice::from_raw_parts(first, count) };
        let instructions = instructions.iter().map(|raw| Instruction {
            code: raw.code,
            jt: raw.jt,
            jf: raw.jf,
            k: raw.k,
        });
        match Program::new(instructions.collect()) {
            Ok(program) => {
                capture.set_filter(program);
                0
            }
            Err(error) => slot.fail(&error.to_string()),
        }
    })
}
