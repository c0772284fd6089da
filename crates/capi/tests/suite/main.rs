//! The C library as C programs have it: installed by `make install-c`, found by pkg-config, linked
//! both ways, reading what another process publishes. `calls` are the same functions from here.

mod calls;
mod common;
mod examples;
mod installed;
mod misuse;
mod roles;
mod writing;
