//! A writer that violates every rule, and readers that do not trust it, in two processes. The
//! writer scribbles over packet and control memory at full speed while the reader continues.
#![cfg(not(miri))]

#[path = "common/children.rs"]
mod children;
#[path = "common/config.rs"]
mod config;
#[path = "common/scribble.rs"]
mod scribble;
#[path = "common/seats.rs"]
mod seats;

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::thread;

use burstline_log::{
    Appended, AttachError, Burst, Log, Meta, ReaderConfig, Start, UntrustedReader, Writer,
};
use burstline_sys::memory::MemoryError;
use rustix::fs::{
    FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, ftruncate, memfd_create,
};

use children::inherited;
use config::of_segments;
use scribble::{Noise, own_memory};
use seats::received;

const SEGMENT_BYTES: usize = 16 << 10;
const SEGMENTS: usize = 8;
/// Calls of `next_burst` that the reader must survive, unless `BURSTLINE_LOOKS` is set.
const LOOKS: u64 = 200_000;

fn looks() -> u64 {
    std::env::var("BURSTLINE_LOOKS").map_or(LOOKS, |looks| looks.parse().unwrap())
}

fn log(name: &str) -> (Log, Writer) {
    Log::create(of_segments(name, SEGMENTS, SEGMENT_BYTES)).unwrap()
}

fn append(writer: &mut Writer, number: u64) {
    let bytes = [number as u8; 200];
    let length = 40 + number as usize % 160;
    let meta = Meta { drops_before: number % 3 / 2, ..Meta::new(number, length as u32, 0) };
    assert_eq!(writer.append(&bytes[..length], &meta), Appended::Whole);
}

/// Uses everything in a burst that code might use.
fn use_all_of(burst: &Burst<'_>) {
    // Numbers and counts can be added without overflow; times and bytes have any value.
    let mut sum = burst.first_packet() + burst.len() as u64;
    let mut mix = 0;
    assert!(burst.len() <= SEGMENT_BYTES / 16 && burst.extent() <= SEGMENT_BYTES);
    for packet in burst.packets() {
        assert_eq!(packet.bytes().len(), packet.length());
        assert!(packet.original_length() >= packet.length());
        sum += packet.drops_before() + u64::from(packet.port());
        mix ^= packet.time_ns();
        mix ^= packet.bytes().iter().map(|&byte| u64::from(byte)).sum::<u64>();
    }
    std::hint::black_box((sum, mix));
}

#[test]
#[ignore = "the other process of the test below"]
fn role_look_on() {
    let mut reader = UntrustedReader::attach(inherited(Start::Oldest)).unwrap();
    println!("attached");
    let (mut bursts, mut ended) = (0_u64, 0_u64);
    for look in 0..looks() {
        if let Some(burst) = reader.next_burst() {
            bursts += 1;
            use_all_of(&burst);
        }
        ended += u64::from(reader.is_finished());
        // A wait sleeps; most looks come right after each other.
        if look % 64 == 0 {
            reader.wait(1_000);
        }
        std::hint::black_box((reader.lag(), reader.kept_ns(), reader.is_demoted()));
    }
    println!("survived {bursts} bursts, {ended} ends, {:?}", reader.statistics());
}

#[test]
fn a_writer_that_scribbles_over_everything_does_its_readers_no_harm() {
    for seed in [1, 0x9e37_79b9_7f4a_7c15] {
        let name = format!("mad-{seed:x}");
        let (log, mut writer) = log(&name);
        (0..2_000).for_each(|number| append(&mut writer, number));
        writer.publish();
        let seat = log.attach_remote(ReaderConfig::default()).unwrap();
        let mut child = children::spawn("role_look_on", &seat);
        let mut stdout = std::io::BufReader::new(child.stdout.take().unwrap());
        let mut said = String::new();
        while !said.contains("attached") {
            assert!(std::io::BufRead::read_line(&mut stdout, &mut said).unwrap() > 0, "{said}");
        }
        let packets = own_memory(&log, &format!("burstline-{name}"));
        let control = own_memory(&log, &format!("burstline-{name}-control"));
        let (is_over, scribbled) = (AtomicBool::new(false), AtomicU64::new(0));
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut noise = Noise(seed);
                while !is_over.load(Relaxed) {
                    (0..8).for_each(|_| noise.scribble(packets));
                    scribbled.fetch_add(8, Relaxed);
                    // Also append sound packets, so that there is something to read.
                    append(&mut writer, noise.next() % 1000);
                    writer.publish();
                    if noise.next().is_multiple_of(16) {
                        noise.scribble(control);
                    }
                }
            });
            let status = child.wait().unwrap();
            is_over.store(true, Relaxed);
            std::io::Read::read_to_string(&mut stdout, &mut said).unwrap();
            assert!(status.success() && said.contains("survived"), "{status}: {said}");
        });
        let line = said.lines().find(|line| line.contains("survived")).unwrap();
        eprintln!("{line}, {scribbled:?} words scribbled meanwhile");
        assert!(scribbled.into_inner() > 0);
        burstline_skip::ledger(looks(), looks(), &[]);
    }
}

/// Header fields are read once and checked. With any values, attaching returns an error or a
/// working reader.
#[test]
fn a_header_that_lies_is_refused_or_harmless() {
    let (log, mut writer) = log("header");
    (0..2_000).for_each(|number| append(&mut writer, number));
    writer.publish();
    let control = own_memory(&log, "burstline-header-control");
    let sound: Vec<u64> = control.iter().map(|word| word.load(Relaxed)).collect();
    let (mut noise, mut attached, mut refused) = (Noise(77), 0, 0);
    for round in 0..4_000 {
        control.iter().zip(&sound).for_each(|(word, &value)| word.store(value, Relaxed));
        // The first five words: magic, version and hash, segment bytes, counts. Then any word.
        let at = noise.next() as usize % 5;
        let value = noise.next() >> (noise.next() % 64);
        control[at].store(value, Relaxed);
        (0..round % 8).for_each(|_| noise.scribble(control));
        let seat = log.attach_remote(ReaderConfig::default()).unwrap();
        match UntrustedReader::attach(received(seat.files())) {
            Ok(mut reader) => {
                attached += 1;
                (0..20).for_each(|_| {
                    reader.next_burst().iter().for_each(use_all_of);
                });
            }
            Err(AttachError::NotALog { .. } | AttachError::Version { .. }) => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    control.iter().zip(&sound).for_each(|(word, &value)| word.store(value, Relaxed));
    assert!(attached > 10 && refused > 10, "{attached} attached, {refused} refused");
}

/// Returns a file with a copy of `control`, followed by `more` allocated bytes.
fn control_with_more(control: &[AtomicU64], more: u64, seals: SealFlags) -> OwnedFd {
    let mut bytes: Vec<u8> =
        control.iter().flat_map(|word| word.load(Relaxed).to_ne_bytes()).collect();
    bytes.resize(bytes.len() + more as usize, 0);
    let mut file = File::from(memfd_create("more", MemfdFlags::ALLOW_SEALING).unwrap());
    file.write_all(&bytes).unwrap();
    fcntl_add_seals(&file, seals).unwrap();
    file.into()
}

/// Files that are not sealed, have another size, or have holes are refused.
#[test]
fn memory_that_could_fault_is_refused() {
    let (log, _writer) = log("fault");
    let seat = log.attach_remote(ReaderConfig::default()).unwrap();
    let sealed = SealFlags::SHRINK | SealFlags::GROW | SealFlags::FUTURE_WRITE | SealFlags::SEAL;
    let file = |bytes: u64, seals: SealFlags| {
        let file = memfd_create("other", MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&file, bytes).unwrap();
        // Blocks beyond the end do not belong to the file's size.
        if bytes < 1 << 40 {
            let beyond = FallocateFlags::KEEP_SIZE;
            fallocate(&file, beyond, bytes.next_multiple_of(4096), bytes.max(4096)).unwrap();
        }
        fcntl_add_seals(&file, seals).unwrap();
        file
    };
    let bytes = (SEGMENTS * SEGMENT_BYTES) as u64;
    for (bytes, seals) in [
        (bytes, SealFlags::empty()),
        (bytes, sealed - SealFlags::SHRINK),
        (bytes, sealed - SealFlags::FUTURE_WRITE),
        (0, sealed),
        (bytes, sealed), // hollow
    ] {
        for is_control in [false, true] {
            let mut files = received(seat.files());
            let place = if is_control { &mut files.control } else { &mut files.packets };
            *place = file(bytes, seals);
            let error = UntrustedReader::attach(files).map(drop).unwrap_err();
            let error = match error {
                AttachError::Memory(error) => error,
                AttachError::NotALog { .. } if bytes == 0 && !is_control => continue,
                error => panic!("{error}"),
            };
            let is_right = match (bytes, seals == sealed) {
                (_, false) => matches!(error, MemoryError::MissingSeals { .. }),
                (0, true) => matches!(error, MemoryError::WrongSize { .. }),
                _ => matches!(error, MemoryError::Hollow { .. }),
            };
            assert!(is_right, "{error}");
        }
    }
    // Larger than the geometry says, allocated or not.
    for (is_control, bytes) in [(false, 1 << 50), (false, bytes + (4 << 20)), (true, 1 << 20)] {
        let mut files = received(seat.files());
        if is_control {
            let control = own_memory(&log, "burstline-fault-control");
            files.control = control_with_more(control, bytes, sealed);
        } else {
            files.packets = file(bytes, sealed);
        }
        let error = UntrustedReader::attach(files).map(drop).unwrap_err();
        assert!(matches!(error, AttachError::NotALog { .. }), "{bytes}: {error}");
    }
    assert!(UntrustedReader::attach(received(seat.files())).is_ok());
}
