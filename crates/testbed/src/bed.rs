//! Two hosts and the cable between them.

use burstline_skip::{skip, test_name};

use crate::{BedError, Host};

/// The near host's end of the cable.
pub const NEAR: &str = "v0";
/// The far host's end of the cable.
pub const FAR: &str = "v1";
/// The near host's address.
pub const NEAR_ADDRESS: &str = "10.77.0.1";
/// The far host's address.
pub const FAR_ADDRESS: &str = "10.77.0.2";
/// The near end's link address, locally administered.
pub const NEAR_MAC: [u8; 6] = [0x02, 0x42, 0x55, 0, 0, 1];
/// The far end's link address.
pub const FAR_MAC: [u8; 6] = [0x02, 0x42, 0x55, 0, 0, 2];

/// Two hosts with a veth pair between them.
pub struct Bed {
    /// The sender, in most tests.
    pub near: Host,
    /// The host under test, in most tests.
    pub far: Host,
}

impl Bed {
    /// Makes the hosts and the cable, with an MTU of 1500.
    ///
    /// # Errors
    /// As [`Host::new`].
    pub fn new() -> Result<Self, BedError> {
        Self::with_mtu(1500)
    }

    /// Like [`new`](Self::new), with another MTU.
    ///
    /// # Errors
    /// As [`Host::new`].
    pub fn with_mtu(mtu: u32) -> Result<Self, BedError> {
        let bed = Self { near: Host::new()?, far: Host::new()? };
        bed.connect(NEAR, FAR, mtu)?;
        bed.near.command("ip", &["address", "add", &format!("{NEAR_ADDRESS}/24"), "dev", NEAR])?;
        bed.far.command("ip", &["address", "add", &format!("{FAR_ADDRESS}/24"), "dev", FAR])?;
        Ok(bed)
    }

    /// Makes a bed, or returns `None` after counting the calling test as skipped. It is skipped if
    /// this process may not make namespaces, or the program `ip` is not installed.
    ///
    /// # Panics
    /// If there is no bed for another reason: that is a bug, not a reason to skip.
    pub fn or_skip() -> Option<Self> {
        match Self::new() {
            Ok(bed) => Some(bed),
            Err(reason @ (BedError::NotPermitted | BedError::Missing { .. })) => {
                skip(reason);
                None
            }
            Err(fault) => panic!("{}: no bed: {fault}", test_name()),
        }
    }

    /// Adds another cable, with the MAC addresses of the first, and sets both ends up.
    ///
    /// # Errors
    /// [`BedError::Failed`] with the message of `ip`.
    pub fn connect(&self, near: &str, far: &str, mtu: u32) -> Result<(), BedError> {
        self.connect_queues(near, far, mtu, 1)
    }

    /// Like [`connect`](Self::connect), with `queues` queues each way at either end, at least 1.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub fn connect_queues(
        &self,
        near: &str,
        far: &str,
        mtu: u32,
        queues: u32,
    ) -> Result<(), BedError> {
        let queues = queues.to_string();
        let queues = ["numtxqueues", &queues, "numrxqueues", &queues];
        let (near_mac, far_mac) = (colons(NEAR_MAC), colons(FAR_MAC));
        let (mtu, namespace) = (mtu.to_string(), self.far.thread_id().to_string());
        let one_end = ["link", "add", near, "mtu", &mtu, "address", &near_mac];
        let other_end = ["type", "veth", "peer", "name", far, "mtu", &mtu, "address", &far_mac];
        let place = ["netns", &namespace];
        let whole = [&one_end[..], &queues, &other_end, &queues, &place].concat();
        self.near.command("ip", &whole)?;
        self.near.command("ip", &["link", "set", near, "up"])?;
        self.far.command("ip", &["link", "set", far, "up"])?;
        Ok(())
    }
}

fn colons(address: [u8; 6]) -> String {
    address.map(|byte| format!("{byte:02x}")).join(":")
}
