//! The kernel's bridge between v1 and w1.

use std::thread;
use std::time::{Duration, Instant};

use burstline_testbed::Host;

use super::READY_WITHIN;
use crate::live::{Need, shell};

/// Required programs.
pub const NEEDS: &[Need] = &[Need { program: "ip", package: "iproute2" }];

/// Commands that create it. Its ports get unused addresses: a bridge keeps frames to its own.
pub const COMMANDS: &str = "ip link set v1 address 02:42:55:00:01:01 && ip link set w1 address \
                            02:42:55:00:01:02 && ip link add br0 type bridge && ip link set v1 \
                            master br0 && ip link set w1 master br0 && ip link set br0 up";

/// Interval of the checks whether its ports forward.
const LOOK: Duration = Duration::from_millis(10);

/// Creates it on a host and returns when both its ports forward.
///
/// # Errors
/// Errors of the kernel, or if a port does not forward within [`READY_WITHIN`].
pub fn start(host: &Host) -> Result<(), String> {
    shell(host, COMMANDS)?;
    let began = Instant::now();
    loop {
        let ports = host.command("ip", &["-details", "link", "show", "master", "br0"]);
        let ports = ports.map_err(|error| error.to_string())?;
        if ports.matches(" state forwarding ").count() == 2 {
            return Ok(());
        }
        if began.elapsed() > READY_WITHIN {
            return Err(format!("a port of the bridge does not forward: {ports}"));
        }
        thread::sleep(LOOK);
    }
}
