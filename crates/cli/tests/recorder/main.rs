//! `burstline capture -w`: rings of files, full disks, kills.

#[path = "../support/mod.rs"]
mod support;

mod extcap;
mod extcap_live;
mod followed;
mod recorded_losses;
mod recorder;
mod recorder_disk;
mod recorder_faults;
mod recorder_kept;
mod recorder_resumed;
mod recorder_rings;
mod unfinished;
