//! Files of every kind, on the file systems of this machine; as root also a small tmpfs.

use std::fs;
use std::io::Read;

use burstline_skip::skip;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::super::AlignedBuffer;
use super::*;

/// A directory for one test, on disk, removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("burstline-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn pattern(bytes: usize) -> AlignedBuffer {
    let mut buffer = AlignedBuffer::new(bytes).unwrap();
    for (index, byte) in buffer.iter_mut().enumerate() {
        *byte = (index % 251) as u8;
    }
    buffer
}

#[test]
fn what_is_written_is_what_is_read() {
    let scratch = Scratch::new("written");
    let path = scratch.0.join("file");
    fs::write(&path, vec![0xff; 1 << 20]).unwrap();
    let data = pattern(256 << 10);
    let mut file = OutputFile::create(&path, &Creation::default()).unwrap();
    eprintln!("{} is written {}", path.display(), file.write_path());
    assert_ne!(*file.write_path(), WritePath::Stream);
    file.preallocate(512 << 10).unwrap();
    // The second half first: a regular file takes writes at any offset.
    file.write_all_at(&data[128 << 10..], 128 << 10).unwrap();
    file.write_all_at(&data[..128 << 10], 0).unwrap();
    file.leave_direct().unwrap();
    file.write_all_at(b"odd", 256 << 10).unwrap();
    file.sync().unwrap();
    let read = fs::read(&path).unwrap();
    assert!(read[..256 << 10] == data[..]);
    assert_eq!(&read[256 << 10..], b"odd", "nothing of the old file is left");
    file.set_len(5).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().len(), 5);
}

#[test]
fn an_unaligned_direct_write_is_an_error_and_not_a_lie() {
    let scratch = Scratch::new("unaligned");
    let mut file = OutputFile::create(&scratch.0.join("file"), &Creation::default()).unwrap();
    if *file.write_path() != WritePath::Direct {
        skip(file.write_path());
        return;
    }
    match file.write_all_at(b"odd", 0) {
        Err(WriteError::Short { written: 0, wanted: 3, source, .. }) => {
            assert_eq!(source.raw_os_error(), Some(libc::EINVAL));
        }
        Ok(()) => assert_eq!(fs::read(file.path()).unwrap(), b"odd"),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn devices_are_streams_and_stay_devices() {
    let mut null = OutputFile::create(Path::new("/dev/null"), &Creation::default()).unwrap();
    assert_eq!(*null.write_path(), WritePath::Stream);
    null.write_all_at(b"abc", 0).unwrap();
    null.write_all_at(b"def", 3).unwrap();
    let error = null.write_all_at(b"ghi", 9).unwrap_err().to_string();
    assert_eq!(error, "/dev/null: offset 9 in a stream that is at 6");
    assert!(!null.preallocate(4096).unwrap());
    null.set_len(0).unwrap();
    null.sync().unwrap();
    assert!(!fs::metadata("/dev/null").unwrap().is_file());

    let mut full = OutputFile::create(Path::new("/dev/full"), &Creation::default()).unwrap();
    let error = full.write_all_at(b"abc", 0).unwrap_err().to_string();
    assert!(error.starts_with("/dev/full: 0 of 3 bytes written at offset 0: No space"), "{error}");
}

#[test]
fn a_fifo_gets_the_bytes_in_order() {
    let scratch = Scratch::new("fifo");
    let path = scratch.0.join("fifo");
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let data = pattern(1 << 20);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut read = Vec::new();
            fs::File::open(&path).unwrap().read_to_end(&mut read).unwrap();
            read
        });
        // More than a pipe holds, so writes come up short and are continued.
        let mut fifo = OutputFile::create(&path, &Creation::default()).unwrap();
        assert_eq!(*fifo.write_path(), WritePath::Stream);
        fifo.write_all_at(&data, 0).unwrap();
        drop(fifo);
        assert!(reader.join().unwrap() == data[..]);
    });
}

#[test]
fn a_directory_is_refused() {
    let error =
        OutputFile::create(Path::new("/proc"), &Creation::default()).unwrap_err().to_string();
    assert!(error.starts_with("/proc: open: "), "{error}");
}

/// Mounts a tmpfs of `bytes` bytes that only the calling thread sees and that ends with it.
fn mount_for_this_thread(directory: &Path, bytes: usize) -> io::Result<()> {
    let path = std::ffi::CString::new(directory.as_os_str().as_encoded_bytes()).unwrap();
    let size = std::ffi::CString::new(format!("size={bytes}")).unwrap();
    let check = |result: libc::c_int| match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    };
    let private = libc::MS_REC | libc::MS_PRIVATE;
    let none = std::ptr::null();
    // SAFETY: the call takes no pointer, and changes only this thread's view of the mounts.
    check(unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
    // SAFETY: the strings live through the call, and this flag asks for no other argument.
    check(unsafe { libc::mount(none, c"/".as_ptr(), none, private, none.cast()) })?;
    let (kind, data) = (c"tmpfs".as_ptr(), size.as_ptr().cast());
    // SAFETY: the strings live through the call.
    check(unsafe { libc::mount(kind, path.as_ptr(), kind, 0, data) })
}

#[test]
fn a_full_disk_says_how_much_it_took() {
    let scratch = Scratch::new("full");
    let mounted = std::thread::scope(|scope| {
        let worker = scope.spawn(|| -> io::Result<()> {
            mount_for_this_thread(&scratch.0, 1 << 20)?;
            let path = scratch.0.join("file");
            let data = pattern(768 << 10);
            let mut file = OutputFile::create(&path, &Creation::default()).unwrap();
            file.write_all_at(&data, 0).unwrap();
            let error = file.write_all_at(&data, 768 << 10).unwrap_err();
            let WriteError::Short { offset, written, wanted, source, .. } = error else {
                panic!("{error}");
            };
            assert_eq!((offset, written, wanted), (768 << 10, 256 << 10, 768 << 10));
            assert_eq!(source.raw_os_error(), Some(libc::ENOSPC));
            assert_eq!(fs::metadata(&path).unwrap().len(), 1 << 20);
            assert!(
                file.preallocate(2 << 20).unwrap_err().to_string().contains("fallocate: No sp")
            );
            Ok(())
        });
        worker.join().unwrap()
    });
    if let Err(error) = mounted {
        skip(format!("mount a tmpfs: {error}"));
    }
}
