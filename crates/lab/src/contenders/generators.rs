//! Programs that send: trafgen and tcpreplay.

use std::fs;

use burstline_testbed::Frames;

use super::Job;
use super::captures::first_line;
use super::live::{FILE, Live, Own, Running};
use crate::live::{Contender, Road, with_all};
use crate::scenario::Work;

/// `trafgen` of the netsniff-ng tools: the same packet over and over.
pub(super) struct Trafgen;

/// The same packet, from a file that it keeps in memory.
pub(super) struct Tcpreplay;

/// Starts a sender, which may be several processes.
fn start<'a>(
    live: &'a impl Live,
    job: &Job<'_>,
    road: &'a Road,
    packet: &[u8],
) -> Result<Box<dyn Running + 'a>, String> {
    let file = road.file("packet");
    fs::write(&file, packet).map_err(|error| format!("{file}: {error}"))?;
    let command = live.command(job).replace(FILE, &file);
    let program = Contender::start(road, &live.cores(job), &command, live.ready(), job.stop)?;
    Ok(Box::new(Sending(program)))
}

struct Sending<'a>(Contender<'a>);

impl Running for Sending<'_> {
    fn end(self: Box<Self>, _: u64) -> Result<Own, String> {
        let pages = Some(self.0.pages());
        self.0.end().map(|_| Own { pages, ..Own::default() })
    }
}

impl Live for Trafgen {
    fn name(&self) -> &'static str {
        "trafgen"
    }

    fn works(&self) -> &'static [Work] {
        &[Work::Generate]
    }

    fn programs(&self) -> &'static [(&'static str, &'static str)] {
        &[("trafgen", "netsniff-ng"), ("unshare", "util-linux")]
    }

    fn version(&self) -> String {
        first_line("trafgen", &["--version"])
    }

    /// It takes the first core, whatever it is told.
    fn command(&self, _: &Job<'_>) -> String {
        with_all(&format!("trafgen -o v1 -i {FILE} -P 1"))
    }

    fn start<'a>(&'a self, job: &Job<'_>, road: &'a Road) -> Result<Box<dyn Running + 'a>, String> {
        let bytes: Vec<String> = packet(job).iter().map(|byte| format!("{byte:#04x}")).collect();
        start(self, job, road, format!("{{ {} }}\n", bytes.join(", ")).as_bytes())
    }
}

impl Live for Tcpreplay {
    fn name(&self) -> &'static str {
        "tcpreplay"
    }

    fn works(&self) -> &'static [Work] {
        &[Work::Generate]
    }

    fn programs(&self) -> &'static [(&'static str, &'static str)] {
        &[("tcpreplay", "tcpreplay"), ("unshare", "util-linux")]
    }

    fn version(&self) -> String {
        first_line("tcpreplay", &["--version"])
    }

    fn command(&self, _: &Job<'_>) -> String {
        with_all(&format!("tcpreplay -i v1 --topspeed --preload-pcap --loop=0 {FILE}"))
    }

    fn start<'a>(&'a self, job: &Job<'_>, road: &'a Road) -> Result<Box<dyn Running + 'a>, String> {
        start(self, job, road, &pcap(&packet(job), 1000))
    }
}

fn packet(job: &Job<'_>) -> Vec<u8> {
    Frames::new(1, job.frame_bytes()).frame(0)
}

/// A file of `count` times the same packet. Source: pcap-savefile(5), little-endian, Ethernet.
fn pcap(packet: &[u8], count: usize) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1] {
        file.extend(word.to_le_bytes());
    }
    let length = packet.len() as u32;
    for _ in 0..count {
        for word in [0, 0, length, length] {
            file.extend(word.to_le_bytes());
        }
        file.extend(packet);
    }
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_a_header_and_records() {
        let file = pcap(&[7; 60], 3);
        assert_eq!(file.len(), 24 + 3 * (16 + 60));
        assert_eq!(&file[..8], &[0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0]);
        assert_eq!(&file[32..40], &[60, 0, 0, 0, 60, 0, 0, 0]);
    }
}
