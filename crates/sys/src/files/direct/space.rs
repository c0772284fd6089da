//! Free space of a file system.

use std::io;
use std::os::fd::AsFd;

use rustix::fs::fstatvfs;

/// Returns the free bytes, without root's reserve, on the file system of `file`.
///
/// Cost: a system call that reads no disk.
///
/// # Errors
/// Errors from the kernel.
pub fn free_bytes(file: impl AsFd) -> io::Result<u64> {
    let told = fstatvfs(file)?;
    Ok(told.f_bavail.saturating_mul(told.f_frsize))
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::fs::File;
    use std::process::Command;

    use super::*;

    #[test]
    fn it_is_what_df_says() {
        // A file system that nobody writes.
        let free = free_bytes(File::open("/dev").unwrap()).unwrap();
        let df = Command::new("df").args(["-B1", "--output=avail", "/dev"]).output().unwrap();
        let df = String::from_utf8(df.stdout).unwrap();
        assert_eq!(df.lines().nth(1).unwrap().trim().parse(), Ok(free));
    }
}
