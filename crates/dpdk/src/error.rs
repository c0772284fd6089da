//! What DPDK refuses: one line, with its own words and the mend.

/// Why EAL or a device is not available.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DpdkError {
    /// EAL does not start, and a process has one try.
    #[error("DPDK does not start: {reason}: {mend}")]
    Eal {
        /// What EAL logged.
        reason: String,
        /// What may help.
        mend: &'static str,
    },
    /// EAL runs already, as another port wanted it.
    #[error(
        "DPDK already runs with `{running}`, and {device} needs `{wanted}`: give huge, memory \
         and eal to the first dpdk: port only, or to all the same"
    )]
    OtherOptions {
        /// The arguments it was started with.
        running: String,
        /// Who wants something else.
        device: String,
        /// What.
        wanted: String,
    },
    /// There is no such device, or its driver does not take it.
    #[error(
        "dpdk:{device}: {reason}: is it a virtual device with its arguments \
         (net_pcap0,rx_pcap=a.pcap), or an address that dpdk-devbind.py --status lists?"
    )]
    Probe {
        /// Its devargs.
        device: String,
        /// What DPDK said.
        reason: String,
    },
    /// A device of the kernel's that it is to be the other end of is not there. DPDK would take the
    /// path for that of a socket.
    #[error(
        "dpdk:{device}: there is no {file}: modprobe vhost_net, or path= of a socket that a \
         vhost-user server has made"
    )]
    NoFile {
        /// Its devargs.
        device: String,
        /// Which.
        file: String,
    },
    /// The device does not do what is asked of it.
    #[error("dpdk:{device}: {action}: {reason}")]
    Device {
        /// Its devargs.
        device: String,
        /// What was tried.
        action: &'static str,
        /// What DPDK said.
        reason: String,
    },
    /// More queues than there are.
    #[error("dpdk:{device}: {wanted} queues requested, and it has {most}: queues={most}")]
    TooManyQueues {
        /// Its devargs.
        device: String,
        /// How many.
        wanted: u16,
        /// How many it has.
        most: u16,
    },
    /// No memory for mbufs.
    #[error(
        "dpdk:{device}: no memory for {mbufs} mbufs of {room} bytes: more with memory=MIB, fewer \
         with pool=MBUFS, or huge=no"
    )]
    NoPool {
        /// Its devargs.
        device: String,
        /// How many.
        mbufs: u32,
        /// Bytes of each.
        room: u16,
    },
    /// Another port of this job has it.
    #[error("dpdk:{device}: {what} is already used by another port of this job")]
    Taken {
        /// Its devargs.
        device: String,
        /// What of it.
        what: &'static str,
    },
    /// Another port of this job has the device open in another way.
    #[error("dpdk:{device}: it is open already, with other options: give both ports the same")]
    OpenOtherwise {
        /// Its devargs.
        device: String,
    },
}
