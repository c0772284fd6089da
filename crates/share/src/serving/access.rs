//! Decides who may read: checks the socket's owner, group and mode against the actual caller.
//!
//! To connect, a process needs write permission on the socket's file. Others can change that file
//! later, and a process can pass its connection on. So the publisher also checks the peer's
//! credentials against its configuration (`SO_PEERCRED`, `SO_PEERGROUPS`).

use std::io;

use burstline_sys::seqpacket::{Credentials, SeqPacket};

/// The users that may connect. Root and the publisher's own user always may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) own_user: u32,
    pub(crate) owner: u32,
    pub(crate) group: u32,
    pub(crate) mode: u32,
}

impl Access {
    /// Returns whether the process that made this connection may read.
    pub(crate) fn admits(&self, socket: &SeqPacket, peer: Credentials) -> io::Result<bool> {
        let mut groups = socket.peer_groups()?;
        groups.push(peer.gid);
        Ok(self.allows(peer.uid, &groups))
    }

    fn allows(&self, user: u32, groups: &[u32]) -> bool {
        if user == 0 || user == self.own_user {
            return true;
        }
        // Use the write bit of the first class that matches, like the kernel.
        let write_bit = if user == self.owner {
            0o200
        } else if groups.contains(&self.group) {
            0o020
        } else {
            0o002
        };
        self.mode & write_bit != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_class_that_fits_decides() {
        let access = |mode| Access { own_user: 5, owner: 10, group: 20, mode };
        let cases = [
            (0o600, 10, 20, true),
            (0o060, 10, 20, false), // the owner's bit is off, so the group does not count
            (0o060, 11, 20, true),
            (0o600, 11, 20, false),
            (0o606, 11, 20, false),
            (0o606, 11, 21, true),
            (0o444, 10, 20, false), // read permission on a socket's file does not allow connecting
            (0o000, 0, 0, true),
            (0o000, 5, 1, true),
        ];
        for (mode, user, group, is_allowed) in cases {
            let found = access(mode).allows(user, &[7, group]);
            assert_eq!(found, is_allowed, "mode {mode:o}, user {user}, group {group}");
        }
    }
}
