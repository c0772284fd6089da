//! The part of a device's name and arguments that concerns us: the rest is for its driver.

use std::path::Path;

/// Returns `/dev/vhost-net` of `net_virtio_user0,path=/dev/vhost-net`, if that does not exist.
pub(crate) fn missing_file(devargs: &str) -> Option<&str> {
    let paths = devargs.split(',').filter_map(|argument| argument.strip_prefix("path="));
    let mut files = paths.filter(|path| path.starts_with("/dev/"));
    files.find(|path| !Path::new(path).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_end_of_a_device_may_be_missing() {
        let missing = missing_file("net_virtio_user0,path=/dev/none-such,queues=1");
        assert_eq!(missing, Some("/dev/none-such"));
        assert_eq!(missing_file("net_virtio_user0,path=/dev/null"), None);
        assert_eq!(missing_file("net_virtio_user0,path=/tmp/none-such"), None);
    }
}
