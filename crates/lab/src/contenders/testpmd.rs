//! `dpdk-testpmd` over net_af_xdp.

use burstline_testbed::Receiver;

use super::Job;
use super::live::{Live, Own};
use crate::conditions::cycles_per_second;
use crate::live;
use crate::scenario::Work;

/// DPDK's own test program: rxonly to count, io to bounce and to switch, txonly to send.
pub(super) struct Testpmd;

impl Live for Testpmd {
    fn name(&self) -> &'static str {
        "testpmd"
    }

    fn works(&self) -> &'static [Work] {
        &[Work::Count, Work::Bounce, Work::Switch, Work::Latency, Work::Generate, Work::Duplex]
    }

    fn programs(&self) -> &'static [(&'static str, &'static str)] {
        &[("dpdk-testpmd", "dpdk-dev")]
    }

    fn version(&self) -> String {
        // It says so only when it starts; the package knows.
        super::captures::first_line("dpkg-query", &["-W", "-f", "DPDK ${Version}", "dpdk"])
    }

    fn receiver(&self, _: Work) -> Receiver {
        Receiver::Program
    }

    fn cores(&self, job: &Job<'_>) -> String {
        format!("{},{}", job.places.generator, job.core_list())
    }

    fn command(&self, job: &Job<'_>) -> String {
        let main = job.places.generator;
        // A thread polls as many ports as there are for each core.
        let threads = job.places.contender.iter().take(job.ports);
        let threads: Vec<String> =
            (1..).zip(threads).map(|(number, core)| format!("{number}@{core}")).collect();
        let device = |number: u32, interface: &str| {
            format!(
                "--vdev net_af_xdp{number},iface={interface},start_queue=0,queue_count=1,\
                 busy_budget=0"
            )
        };
        let mode = match job.work {
            Work::Count => {
                let more = live::interfaces(job.ports);
                let more = (1..).zip(&more[1..]).map(|(number, name)| device(number, name));
                let more = more.collect::<Vec<_>>().join(" ");
                format!(
                    "{more} -- --forward-mode=rxonly --nb-cores={} --record-core-cycles \
                     --record-burst-stats",
                    threads.len()
                )
            }
            Work::Bounce | Work::Switch | Work::Latency => {
                format!("{} -- --forward-mode=io", device(1, "w1"))
            }
            _ => format!("-- --forward-mode=txonly --txpkts={}", job.frame_bytes()),
        };
        let by = if job.work == Work::Generate { job.sends_by } else { "v1" };
        // Its main thread sleeps.
        format!(
            "dpdk-testpmd --lcores 0@{main},{} --no-pci --no-telemetry --in-memory -m 512 {} \
             {mode} --stats-period=3600 --no-mlockall",
            threads.join(","),
            device(0, by)
        )
    }

    fn ready(&self) -> &'static str {
        "Port statistics"
    }

    fn own(&self, said: &str, _: u64) -> Result<Own, String> {
        let live::Testpmd { received, cycles } = live::Testpmd::parse(said)?;
        let seconds = cycles * received as f64 / cycles_per_second();
        let busy = if cycles > 0.0 { vec![("poll".to_owned(), seconds)] } else { Vec::new() };
        Ok(Own { delivered: received, busy, ..Own::default() })
    }
}
