//! `dpdk-testpmd` over net_af_xdp.

use burstline_testbed::Target;

use crate::conditions::cycles_per_second;
use crate::contenders::Job;
use crate::contenders::live::{Live, Own};
use crate::live::Need;
use crate::programs::{self, Launch, Mode, Totals, first_line};
use crate::scenario::Work;

/// DPDK's own test program: rxonly to count, io to bounce and to switch, txonly to send.
pub(crate) struct Testpmd;

/// Returns the version from the package; testpmd prints it only when it starts.
pub(crate) fn version() -> String {
    first_line("dpkg-query", &["-W", "-f", "DPDK ${Version}", "dpdk"])
}

impl Testpmd {
    fn program(job: &Job<'_>) -> programs::Testpmd {
        let (main, cores) = (job.places.generator, &job.places.contender);
        let run = |interfaces: &[&str], mode| {
            // Each core has one thread; threads without a port are useless.
            let threads = &cores[..cores.len().min(interfaces.len())];
            programs::Testpmd::over(main, threads, interfaces, mode)
        };
        match job.work {
            Work::Count => {
                let all: Vec<&str> = job.comes_in.iter().map(String::as_str).collect();
                run(&all, Mode::Receive)
            }
            Work::Generate => run(&[job.sends_by], Mode::Send(job.frame_bytes())),
            // One thread serves both directions, as in ours.
            _ => {
                let both = [job.comes_in[0].as_str(), &job.goes_out];
                programs::Testpmd::over(main, &cores[..1], &both, Mode::Forward)
            }
        }
    }
}

impl Live for Testpmd {
    fn name(&self) -> &'static str {
        "testpmd"
    }

    fn works(&self) -> &'static [Work] {
        &[
            Work::Count,
            Work::Bounce,
            Work::Switch,
            Work::Latency,
            Work::Generate,
            Work::Duplex,
            Work::Rfc2544,
        ]
    }

    fn has_remote(&self) -> bool {
        true
    }

    fn needs(&self) -> &'static [Need] {
        programs::Testpmd::needs()
    }

    fn version(&self) -> String {
        version()
    }

    fn receiver(&self, _: Work) -> Target {
        Target::Program
    }

    fn cores(&self, job: &Job<'_>) -> String {
        Self::program(job).core_list()
    }

    fn launch(&self, job: &Job<'_>) -> Box<dyn Launch> {
        Box::new(Self::program(job))
    }

    fn own(&self, said: &str, _: u64) -> Result<Own, String> {
        let Totals { received, cycles, .. } = Totals::parse(said)?;
        let seconds = cycles * received as f64 / cycles_per_second();
        let busy = if cycles > 0.0 { vec![("poll".to_owned(), seconds)] } else { Vec::new() };
        Ok(Own { delivered: received, busy, ..Own::default() })
    }
}
