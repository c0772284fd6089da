//! Capture files: formats, round trips, damage, reading ahead, and other tools.

mod ahead;
mod build;
mod damage;
mod forged;
mod formats;
mod round_trip;
mod tools;
