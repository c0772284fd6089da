//! Sockets: options, descriptors sent over them, and packets that the kernel lost at them.

pub mod foreign;
pub mod option;
pub mod raw_socket;
pub mod rights;
pub mod seqpacket;
pub mod tcp;
