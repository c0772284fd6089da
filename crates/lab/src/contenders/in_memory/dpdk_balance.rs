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
}
