//! Capture files: formats, round trips, damage, reading ahead, and other tools.

mod ahead;
mod build;
mod corpus;
mod damage;
mod forged;
mod formats;
mod in_a_row;
mod round_trip;
mod tools;
