//! Maps: what programs keep, and this process reads and writes by calls.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use super::BpfError;
use super::call::{self, Element, MapCreate};

/// Which cores there may ever be, as ranges.
const POSSIBLE: &str = "/sys/devices/system/cpu/possible";

/// What kind of map. Source: enum bpf_map_type, include/uapi/linux/bpf.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum MapKind {
    /// Any key to a value.
    Hash = 1,
    /// Index to value; all entries are there from the start, as zeros.
    Array = 2,
    /// Index to program, for [`Helper::TailCall`](super::Helper::TailCall).
    /// It is emptied when its last descriptor is closed, even while programs name it.
    Programs = 3,
    /// As an array, with a value for each core.
    PerCpuArray = 6,
    /// Index to interface, for [`Helper::RedirectMap`](super::Helper::RedirectMap).
    Devices = 14,
    /// Queue to AF_XDP socket, for [`Helper::RedirectMap`](super::Helper::RedirectMap).
    Sockets = 17,
}

/// The shape of a map.
#[derive(Clone, Copy, Debug)]
pub struct MapOptions<'a> {
    /// Its name, for `bpftool map`: up to 15 letters, digits, `_` and `.`.
    pub name: &'a str,
    /// Its kind.
    pub kind: MapKind,
    /// Bytes of a key; arrays of any kind want 4.
    pub key_bytes: u32,
    /// Bytes of a value; programs, devices and sockets want 4.
    pub value_bytes: u32,
    /// The most entries, and for arrays how many there are.
    pub entries: u32,
    /// `BPF_F_` flags, as of `BPF_MAP_CREATE`; 0 for none.
    pub flags: u32,
}

/// A map in the kernel. It goes when this is dropped and no program names it.
#[derive(Debug)]
pub struct Map {
    fd: OwnedFd,
    kind: MapKind,
    key_bytes: usize,
    value_bytes: usize,
}

impl Map {
    /// Makes a map.
    ///
    /// # Errors
    /// [`BpfError::NotPermitted`], [`BpfError::System`].
    pub fn create(options: &MapOptions<'_>) -> Result<Self, BpfError> {
        let mut request = MapCreate {
            map_type: options.kind as u32,
            key_size: options.key_bytes,
            value_size: options.value_bytes,
            max_entries: options.entries,
            map_flags: options.flags,
            inner_map_fd: 0,
            numa_node: 0,
            map_name: call::name(options.name),
        };
        // SAFETY: the request has no address in it.
        let fd = unsafe { call::bpf_open(call::MAP_CREATE, &mut request) };
        Ok(Self {
            fd: fd.map_err(BpfError::system("BPF_MAP_CREATE"))?,
            kind: options.kind,
            key_bytes: options.key_bytes as usize,
            value_bytes: options.value_bytes as usize,
        })
    }

    /// Sets the value of a key, whether or not it has one.
    ///
    /// # Errors
    /// [`BpfError`] with what the kernel says.
    ///
    /// # Panics
    /// If key or value do not have the bytes that the map was made with, or the map is a per-CPU
    /// one.
    pub fn update(&self, key: &[u8], value: &[u8]) -> Result<(), BpfError> {
        assert_ne!(self.kind, MapKind::PerCpuArray, "a value for each core");
        assert_eq!(value.len(), self.value_bytes, "bytes of a value");
        let mut request = self.element(key, call::address(value.as_ptr()));
        // SAFETY: B1: `element` has checked the key, and the value has the map's size.
        let result = unsafe { call::bpf(call::MAP_UPDATE_ELEMENT, &mut request) };
        result.map(drop).map_err(BpfError::system("BPF_MAP_UPDATE_ELEM"))
    }

    /// Puts a descriptor, of a program or socket, or an interface's number into an array of such.
    ///
    /// # Errors
    /// [`BpfError`] with what the kernel says.
    ///
    /// # Panics
    /// If the map's keys or values do not have 4 bytes.
    pub fn set(&self, index: u32, value: u32) -> Result<(), BpfError> {
        self.update(&index.to_ne_bytes(), &value.to_ne_bytes())
    }

    /// The value of a key; `None` if it has none.
    ///
    /// # Errors
    /// [`BpfError`] with what the kernel says.
    ///
    /// # Panics
    /// If the key does not have the map's size, or the map is a per-CPU one.
    pub fn lookup(&self, key: &[u8]) -> Result<Option<Vec<u8>>, BpfError> {
        assert_ne!(self.kind, MapKind::PerCpuArray, "a value for each core");
        self.lookup_bytes(key, self.value_bytes)
    }

    /// The values of a key in a per-CPU map, one for each core that there may be.
    ///
    /// # Errors
    /// [`BpfError`] with what the kernel says.
    ///
    /// # Panics
    /// If the key does not have the map's size, or the map is not a per-CPU one.
    pub fn lookup_per_cpu(&self, key: &[u8]) -> Result<Vec<Vec<u8>>, BpfError> {
        assert_eq!(self.kind, MapKind::PerCpuArray, "one value for all cores");
        // Source: bpf_map_value_size, kernel/bpf/syscall.c.
        let stride = self.value_bytes.next_multiple_of(8);
        let cores = possible_cpus()?;
        let values = self.lookup_bytes(key, stride * cores as usize)?.unwrap_or_default();
        Ok(values.chunks_exact(stride).map(|value| value[..self.value_bytes].to_vec()).collect())
    }

    /// Takes a key out; `false` if it is not there.
    ///
    /// # Errors
    /// [`BpfError`] with what the kernel says; arrays refuse it, but for those of programs,
    /// devices and sockets.
    ///
    /// # Panics
    /// If the key does not have the map's size.
    pub fn delete(&self, key: &[u8]) -> Result<bool, BpfError> {
        let mut request = self.element(key, 0);
        // SAFETY: B1: `element` has checked the key; there is no value.
        let result = unsafe { call::bpf(call::MAP_DELETE_ELEMENT, &mut request) };
        Ok(found(result).map_err(BpfError::system("BPF_MAP_DELETE_ELEM"))?.is_some())
    }

    fn lookup_bytes(&self, key: &[u8], bytes: usize) -> Result<Option<Vec<u8>>, BpfError> {
        let mut value = vec![0; bytes];
        let mut request = self.element(key, call::address(value.as_mut_ptr()));
        // SAFETY: B1: `element` has checked the key; `value` has the bytes that the kernel writes:
        // a value's, or a value's rounded up for each core there may be.
        let result = unsafe { call::bpf(call::MAP_LOOKUP_ELEMENT, &mut request) };
        let found = found(result).map_err(BpfError::system("BPF_MAP_LOOKUP_ELEM"))?;
        Ok(found.map(|()| value))
    }

    fn element(&self, key: &[u8], value: u64) -> Element {
        assert_eq!(key.len(), self.key_bytes, "bytes of a key");
        let map_fd = self.fd.as_raw_fd() as u32;
        Element { map_fd, padding: 0, key: call::address(key.as_ptr()), value, flags: 0 }
    }
}

impl AsFd for Map {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// How many cores there may ever be, offline ones and sockets to be filled included: the kernel
/// numbers them `[0, possible_cpus)`.
///
/// # Errors
/// [`BpfError::System`], also where the kernel's list is no list.
pub fn possible_cpus() -> Result<u32, BpfError> {
    let list = fs::read_to_string(POSSIBLE).map_err(BpfError::system(POSSIBLE))?;
    let last = list.trim().rsplit([',', '-']).next().and_then(|last| last.parse::<u32>().ok());
    let none = || BpfError::system(POSSIBLE)(io::ErrorKind::InvalidData.into());
    last.map(|last| last + 1).ok_or_else(none)
}

/// That there is no such key is no error.
fn found(result: io::Result<i32>) -> io::Result<Option<()>> {
    match result {
        Ok(_) => Ok(Some(())),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
        Err(error) => Err(error),
    }
}
