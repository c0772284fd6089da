//! DPDK's refusals: one line each, with DPDK's message and the remedy.

/// Why EAL or a device is not available.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DpdkError {
    /// EAL does not start; a process has only one attempt.
    #[error("DPDK does not start: {reason}: {mend}")]
    Eal {
        /// What EAL logged.
        reason: String,
        /// What may help.
        mend: &'static str,
    },
    /// EAL already runs with the options of another port.
    #[error(
        "DPDK already runs with `{running}`, but {device} needs `{wanted}`: give huge, memory \
         and eal only to the first dpdk: port, or the same values to all"
    )]
    OtherOptions {
        /// The arguments it was started with.
        running: String,
        /// The device that needs other ones.
        device: String,
        /// The arguments it needs.
        wanted: String,
    },
    /// There is no such device, or its driver rejects it.
    #[error(
        "dpdk:{device}: {reason}: is it a virtual device with its arguments \
         (net_pcap0,rx_pcap=a.pcap), or an address that dpdk-devbind.py --status lists?"
    )]
    Probe {
        /// Its devargs.
        device: String,
        /// DPDK's message.
        reason: String,
    },
    /// A kernel device that should be the other end does not exist. DPDK would treat the path as
    /// that of a socket.
    #[error(
        "dpdk:{device}: there is no {file}: modprobe vhost_net, or give path= of the socket of a \
         vhost-user server"
    )]
    NoFile {
        /// Its devargs.
        device: String,
        /// The file.
        file: String,
    },
    /// The device refuses a request.
    #[error("dpdk:{device}: {action}: {reason}")]
    Device {
        /// Its devargs.
        device: String,
        /// The attempted action.
        action: &'static str,
        /// DPDK's message.
        reason: String,
    },
    /// More queues were requested than the device has.
    #[error("dpdk:{device}: {wanted} queues requested, but it has only {most}: queues={most}")]
    TooManyQueues {
        /// Its devargs.
        device: String,
        /// The requested number.
        wanted: u16,
        /// The number it has.
        most: u16,
    },
    /// No memory for mbufs.
    #[error(
        "dpdk:{device}: no memory for {mbufs} mbufs of {room} bytes: raise memory=MIB, lower \
         pool=MBUFS, or use huge=no"
    )]
    NoPool {
        /// Its devargs.
        device: String,
        /// The number of mbufs.
        mbufs: u32,
        /// Bytes of each.
        room: u16,
    },
    /// Another port of this job uses it.
    #[error("dpdk:{device}: {what} is already used by another port of this job")]
    Taken {
        /// Its devargs.
        device: String,
        /// The part in use.
        what: &'static str,
    },
    /// Another port of this job has the device open with other options.
    #[error("dpdk:{device}: already open with other options: give both ports the same")]
    OpenOtherwise {
        /// Its devargs.
        device: String,
    },
}
