use std::fs;
use std::path::PathBuf;

use super::super::Creation;
use super::*;

const BYTES: usize = 16 << 10;

fn file(name: &str) -> (PathBuf, OutputFile) {
    let name = format!("burstline-queue-{name}-{}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let file = OutputFile::create(&path, &Creation::default()).unwrap();
    (path, file)
}

/// Writes `count` buffers, each filled with its number.
fn write(queue: &mut WriteQueue, file: &mut OutputFile, count: usize) -> Result<(), WriteError> {
    for number in 0..count {
        queue.bytes_mut().fill(number as u8);
        queue.submit(file, (number * BYTES) as u64)?;
    }
    queue.wait_all(file)
}

#[test]
fn every_buffer_is_where_it_belongs() {
    for writes in [1, 4, 64] {
        let (path, mut file) = file("place");
        let mut queue = WriteQueue::new(writes, BYTES).unwrap();
        eprintln!("{}: {}, {}", path.display(), file.write_path(), queue.mode());
        write(&mut queue, &mut file, 150).unwrap();
        assert_eq!(queue.written(), 150);
        let content = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        assert_eq!(content.len(), 150 * BYTES);
        let is_it = |(number, part): (usize, &[u8])| part.iter().all(|&byte| byte == number as u8);
        assert!(content.chunks(BYTES).enumerate().all(is_it));
    }
}

/// As after a direct write that the file system has refused.
#[test]
fn a_write_through_the_page_cache_counts_behind_those_under_way() {
    let (path, mut file) = file("leaves");
    let mut queue = WriteQueue::new(8, BYTES).unwrap();
    for number in 0..5_u8 {
        if number == 4 {
            // Nobody has seen yet that the last direct write is complete.
            file.leave_direct().unwrap();
        }
        queue.bytes_mut().fill(number);
        queue.submit(&mut file, u64::from(number) * BYTES as u64).unwrap();
    }
    let written = (queue.written(), queue.under_way(), queue.submitted.len());
    let content = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    assert_eq!((written, content.len()), ((5, 0, 0), 5 * BYTES));
    let is_it = |(number, part): (usize, &[u8])| part.iter().all(|&byte| byte == number as u8);
    assert!(content.chunks(BYTES).enumerate().all(is_it));
}

#[test]
fn a_queue_serves_one_file_after_the_other() {
    let mut queue = WriteQueue::new(3, BYTES).unwrap();
    for count in [5, 1, 7] {
        let (path, mut file) = file("next");
        write(&mut queue, &mut file, count).unwrap();
        assert_eq!(queue.written(), count as u64);
        queue.abandon();
        assert_eq!((queue.written(), fs::read(&path).unwrap().len()), (0, count * BYTES));
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn a_write_that_fails_is_told_and_nothing_behind_it_is_counted() {
    // A file size limit applies to the whole process, so a child process sets it.
    const CHILD: &str = "BURSTLINE_QUEUE_CHILD";
    if std::env::var_os(CHILD).is_none() {
        let own = std::env::current_exe().unwrap();
        let name = "a_write_that_fails_is_told_and_nothing_behind_it_is_counted";
        let limited = format!("ulimit -f {}; exec \"$0\" {name}", 5 * BYTES / 1024);
        let child = std::process::Command::new("bash")
            .args(["-c", &limited])
            .arg(own)
            .env(CHILD, "1")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&child.stdout).into_owned();
        assert!(child.status.success() && text.contains("1 passed"), "{text}");
        return;
    }
    // SAFETY: ignoring a signal changes no memory.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    for writes in [1, 4] {
        let (path, mut file) = file("limit");
        let mut queue = WriteQueue::new(writes, BYTES).unwrap();
        let error = write(&mut queue, &mut file, 20).unwrap_err();
        assert!(error.to_string().contains("File too large"), "{error}");
        assert_eq!(queue.written(), 5);
        queue.abandon();
        let bytes = fs::metadata(&path).unwrap().len() as usize;
        fs::remove_file(&path).unwrap();
        assert_eq!(bytes, 5 * BYTES);
    }
}

#[test]
fn a_queue_that_is_dropped_waits_for_its_writes() {
    for is_closed_first in [false, true] {
        let (path, mut file) = file("drop");
        let mut queue = WriteQueue::new(8, BYTES).unwrap();
        for number in 0..8 {
            queue.bytes_mut().fill(7);
            queue.submit(&mut file, number * BYTES as u64).unwrap();
        }
        if is_closed_first {
            drop(file);
        }
        drop(queue);
        let content = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        assert!(content.len() == 8 * BYTES && content.iter().all(|&byte| byte == 7));
    }
}

#[test]
fn writes_of_a_thread_that_ends_are_not_lost() {
    let (path, mut file) = file("thread");
    let mut queue = WriteQueue::new(16, BYTES).unwrap();
    for number in 0..100 {
        let submit = || {
            for part in 0..10 {
                queue.bytes_mut().fill(number as u8);
                queue.submit(&mut file, ((number * 10 + part) * BYTES) as u64).unwrap();
            }
        };
        std::thread::scope(|scope| scope.spawn(submit).join().unwrap());
    }
    queue.wait_all(&mut file).unwrap();
    let content = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let is_it =
        |(number, part): (usize, &[u8])| part.iter().all(|&byte| byte == (number / 10) as u8);
    assert_eq!((queue.written(), content.len()), (1000, 1000 * BYTES));
    assert!(content.chunks(BYTES).enumerate().all(is_it));
}
