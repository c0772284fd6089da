//! The NUMA document's pipeline on DPDK: a receive thread, a ring of pointers for each worker.
//!
//! testpmd has no such mode, so this is our own program in C, `rivals-dpdk/balance_live.c`. It is
//! linked into this program and runs as a separate process.

use burstline_testbed::Target;

use crate::contenders::Job;
use crate::contenders::live::{Live, Own};
use crate::contenders::ours::KEY_BYTE;
use crate::programs::{Launch, Memory, Ready, Report};
use crate::scenario::Work;

/// The subcommand of `burstline` that runs it.
pub const WORDS: [&str; 2] = ["lab", "dpdk-balance"];

/// Runs the program in this process. Its name is the first of its arguments.
///
/// # Errors
/// If this program was built without DPDK.
pub fn run_balance(arguments: &[String]) -> Result<u8, String> {
    #[cfg(feature = "dpdk")]
    return crate::rivals::dpdk::program::balance(arguments);
    #[cfg(not(feature = "dpdk"))]
    crate::contenders::dpdk::is_built().map(|()| u8::from(arguments.is_empty()))
}

/// The contender.
pub(crate) struct DpdkBalance;

impl Live for DpdkBalance {
    fn name(&self) -> &'static str {
        "dpdk-balance"
    }

    fn works(&self) -> &'static [Work] {
        &[Work::Balance]
    }

    fn version(&self) -> String {
        crate::contenders::dpdk::version()
    }

    fn can_run(&self) -> Result<(), String> {
        crate::contenders::dpdk::is_built()
    }

    fn receiver(&self, _: Work) -> Target {
        Target::Program
    }

    fn cores(&self, job: &Job<'_>) -> String {
        format!("{},{}", job.places.generator, job.core_list())
    }

    fn launch(&self, job: &Job<'_>) -> Box<dyn Launch> {
        let (main, cores) = (job.places.generator, &job.places.contender);
        // With fewer cores than threads, the extra threads share the first core.
        let threads = 1 + job.workers;
        let is_shared = cores.len() < threads;
        let core = |thread: usize| cores.get(thread).or(cores.first()).copied().unwrap_or(main);
        let threads: Vec<String> =
            (0..threads).map(|thread| format!("{}@{}", thread + 1, core(thread))).collect();
        let share = if is_shared { " --share" } else { "" };
        // The main thread sleeps.
        let before = format!(
            "'{}' {} --lcores 0@{main},{} --no-pci --no-telemetry",
            job.program.display(),
            WORDS.join(" "),
            threads.join(","),
        );
        let after = format!(
            "-- --device net_af_xdp0,iface=v1,start_queue=0,queue_count=1,busy_budget=0 --byte \
             {KEY_BYTE}{share}"
        );
        Box::new(Program { before, after })
    }

    fn own(&self, said: &str, _: u64) -> Result<Own, String> {
        let report = Report::last(said)?;
        let workers = report["workers"].as_array().into_iter().flatten();
        let packets = workers.map(|worker| worker["packets"].as_u64()).collect::<Option<Vec<_>>>();
        let packets =
            packets.ok_or_else(|| format!("packets of a worker are missing: {report}"))?;
        let (delivered, received) = (packets.iter().sum(), report["received"].as_u64());
        let full = report["lost"]["ring_full"].as_u64().unwrap_or(0);
        if received != Some(delivered + full) {
            return Err(format!("received, but neither counted nor lost: {report}"));
        }
        let losses = report["lost"].as_object().into_iter().flatten();
        let losses = losses.filter_map(|(name, lost)| Some((name.clone(), lost.as_u64()?)));
        let busy = report["busy_s"].as_object().into_iter().flatten();
        let busy = busy.filter_map(|(name, seconds)| Some((name.clone(), seconds.as_f64()?)));
        Ok(Own {
            delivered,
            losses: losses.filter(|&(_, lost)| lost > 0).collect(),
            busy: busy.filter(|&(_, seconds)| seconds > 0.0).collect(),
            ..Own::default()
        })
    }
}

/// The command, without the memory options.
struct Program {
    before: String,
    after: String,
}

impl Launch for Program {
    fn command(&self, memory: Memory) -> String {
        let Self { before, after } = self;
        format!("{before} {} {after}", memory.arguments())
    }

    fn ready(&self) -> Ready {
        Ready::line("ready: ").with_xdp(&["v1"])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_ledger_has_to_close() {
        let said = |received: u64| {
            format!(
                "ready: 2 workers\n{{\"received\":{received},\"workers\":[{{\"packets\":4,\
                 \"bytes\":240}},{{\"packets\":3,\"bytes\":180}}],\"lost\":{{\"ring_full\":2,\
                 \"rx_missed\":5,\"rx_nombuf\":0}},\"busy_s\":{{\"poll\":0.5,\"worker\":0.0}}}}\n"
            )
        };
        let own = DpdkBalance.own(&said(9), 14).unwrap();
        let losses = [("ring_full".to_owned(), 2), ("rx_missed".to_owned(), 5)];
        assert_eq!((own.delivered, own.losses), (7, losses.into()));
        assert_eq!(own.busy, [("poll".to_owned(), 0.5)]);
        assert!(DpdkBalance.own(&said(10), 14).unwrap_err().starts_with("received, but"));
        assert!(DpdkBalance.own("ready: 2 workers\n", 14).is_err());
    }

    /// Makes this program the balancer, with these arguments.
    #[cfg(feature = "dpdk")]
    const ARGUMENTS: &str = "BURSTLINE_TEST_DPDK_BALANCE";

    /// The balancer of the next test, in a process of its own: it starts EAL by itself.
    #[test]
    #[cfg(feature = "dpdk")]
    #[ignore = "another test runs it"]
    #[expect(clippy::disallowed_methods, reason = "the report is the last that is printed")]
    fn the_program() {
        let Ok(arguments) = std::env::var(ARGUMENTS) else { return };
        let arguments: Vec<String> = arguments.split(' ').map(str::to_owned).collect();
        // Nothing may be printed after the report.
        std::process::exit(run_balance(&arguments).unwrap().into());
    }

    /// Returns a capture file of packets whose 30th byte is their number.
    #[cfg(feature = "dpdk")]
    fn capture(packets: u8) -> Vec<u8> {
        let words = |words: &[u32]| words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        // Magic number, version 2.4, time zone, accuracy, longest packet, Ethernet.
        let mut file: Vec<u8> = words(&[0xa1b2_c3d4, 4 << 16 | 2, 0, 0, 65_535, 1]);
        for number in 0..packets {
            file.extend::<Vec<u8>>(words(&[1, 0, 60, 60]));
            let mut packet = [0; 60];
            packet[29] = number;
            file.extend(packet);
        }
        file
    }

    #[test]
    #[cfg(feature = "dpdk")]
    fn the_program_deals_every_packet_to_a_worker() {
        use std::io::{BufRead, BufReader, Read};
        use std::process::{Command, Stdio};

        let folder = burstline_sys::temporary::TemporaryFolder::create("dpdk-balance").unwrap();
        let file = folder.file("in.pcap");
        std::fs::write(&file, capture(200)).unwrap();
        let core = burstline_sys::affinity::allowed_cores().unwrap()[0];
        let memory = crate::programs::Memory::Small.arguments();
        let arguments = format!(
            "dpdk-balance --lcores 0@{core},1@{core},2@{core},3@{core} {memory} --no-pci \
             --no-telemetry -- --device net_pcap0,rx_pcap={file} --share"
        );
        let name = "contenders::in_memory::dpdk_balance::tests::the_program";
        let mut program = Command::new(std::env::current_exe().unwrap());
        program.args([name, "--exact", "--ignored", "--nocapture"]).env(ARGUMENTS, arguments);
        let mut program = program.stdout(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(program.stdout.take().unwrap());
        let mut said = String::new();
        while !said.ends_with("ready: 2 workers\n") {
            assert_ne!(out.read_line(&mut said).unwrap(), 0, "it ended: {said}");
        }
        // It takes what its device has before it ends.
        burstline_testbed::signal(program.id(), "-INT").unwrap();
        out.read_to_string(&mut said).unwrap();
        assert!(program.wait().unwrap().success(), "{said}");
        assert_eq!(DpdkBalance.own(&said, 200).unwrap().delivered, 200, "{said}");
        let each =
            "\"workers\":[{\"packets\":100,\"bytes\":6000},{\"packets\":100,\"bytes\":6000}]";
        assert!(said.contains(each), "{said}");
    }
}
