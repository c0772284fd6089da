//! Functions that do not involve our handles: passed on to the real library.

use std::ffi::{c_char, c_int, c_uchar, c_uint, c_void};

use crate::abi::{BpfProgram, Instruction, Interface, PacketHeader, Pcap};
use crate::real::real;

type Text = *const c_char;
type Buffer = *mut c_char;
/// `FILE`, `pcap_dumper_t`, `struct addrinfo` and others that are only passed on.
type Opaque = *mut c_void;

macro_rules! forward {
    ($($name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {$(
        /// The real library's function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) $(-> $result)? {
            real!($name($($argument => $type),*) $(-> $result)?)
        }
    )*};
}

forward! {
    pcap_init(options: c_uint, errbuf: Buffer) -> c_int;
    pcap_lookupdev(errbuf: Buffer) -> Buffer;
    pcap_freealldevs(list: *mut Interface);
    pcap_lib_version() -> Text;
    pcap_strerror(number: c_int) -> Text;
    pcap_statustostr(number: c_int) -> Text;

    pcap_open_dead(link: c_int, snaplen: c_int) -> *mut Pcap;
    pcap_open_dead_with_tstamp_precision(
        link: c_int, snaplen: c_int, precision: c_uint) -> *mut Pcap;
    pcap_open_offline(path: Text, errbuf: Buffer) -> *mut Pcap;
    pcap_open_offline_with_tstamp_precision(
        path: Text, precision: c_uint, errbuf: Buffer) -> *mut Pcap;
    pcap_fopen_offline(file: Opaque, errbuf: Buffer) -> *mut Pcap;
    pcap_fopen_offline_with_tstamp_precision(
        file: Opaque, precision: c_uint, errbuf: Buffer) -> *mut Pcap;

    pcap_compile_nopcap(
        snaplen: c_int, link: c_int, program: *mut BpfProgram, text: Text, optimize: c_int,
        netmask: u32) -> c_int;
    pcap_freecode(program: *mut BpfProgram);
    pcap_offline_filter(
        program: *const BpfProgram, header: *const PacketHeader, bytes: *const c_uchar) -> c_int;
    bpf_filter(
        first: *const Instruction, bytes: *const c_uchar, length: c_uint, captured: c_uint
    ) -> c_uint;
    bpf_validate(first: *const Instruction, count: c_int) -> c_int;
    bpf_image(instruction: *const Instruction, number: c_int) -> Buffer;
    bpf_dump(program: *const BpfProgram, option: c_int);

    pcap_datalink_name_to_val(name: Text) -> c_int;
    pcap_datalink_val_to_name(link: c_int) -> Text;
    pcap_datalink_val_to_description(link: c_int) -> Text;
    pcap_datalink_val_to_description_or_dlt(link: c_int) -> Text;
    pcap_tstamp_type_name_to_val(name: Text) -> c_int;
    pcap_tstamp_type_val_to_name(kind: c_int) -> Text;
    pcap_tstamp_type_val_to_description(kind: c_int) -> Text;

    pcap_ether_aton(text: Text) -> *mut c_uchar;
    pcap_ether_hostton(name: Text) -> *mut c_uchar;
    pcap_next_etherent(file: Opaque) -> Opaque;
    pcap_nametoaddr(name: Text) -> Opaque;
    pcap_nametoaddrinfo(name: Text) -> Opaque;
    pcap_nametonetaddr(name: Text) -> u32;
    pcap_nametoport(name: Text, port: *mut c_int, protocol: *mut c_int) -> c_int;
    pcap_nametoportrange(
        name: Text, first: *mut c_int, last: *mut c_int, protocol: *mut c_int) -> c_int;
    pcap_nametoproto(name: Text) -> c_int;
    pcap_nametoeproto(name: Text) -> c_int;
    pcap_nametollc(name: Text) -> c_int;
}

/// The version as a variable, for very old programs.
#[unsafe(no_mangle)]
pub static pcap_version: [u8; 33] = *b"libpcap version 1.10 (burstline)\0";
