//! Maps: data that programs keep, and that this process reads and writes by calls.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use super::call::{self, Element, MapCreate};
use super::{BpfError, late};

/// The possible cores, as ranges.
const POSSIBLE: &str = "/sys/devices/system/cpu/possible";

/// The kind of a map. Source: enum bpf_map_type, include/uapi/linux/bpf.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum MapKind {
    /// From any key to a value.
    Hash = 1,
    /// From index to value; all entries exist from the start, zeroed.
    Array = 2,
    /// From index to program, for [`Helper::TailCall`](super::Helper::TailCall). It is emptied when
    /// its last descriptor is closed, even while programs refer to it.
    Programs = 3,
    /// Like an array, with a value for each core.
    PerCpuArray = 6,
    /// From index to interface, for [`Helper::RedirectMap`](super::Helper::RedirectMap).
    Devices = 14,
    /// From queue to AF_XDP socket, for [`Helper::RedirectMap`](super::Helper::RedirectMap).
    Sockets = 17,
}

impl MapKind {
    /// All kinds.
    pub(super) const ALL: [Self; 6] =
        [Self::Hash, Self::Array, Self::Programs, Self::PerCpuArray, Self::Devices, Self::Sockets];
}

/// The shape of a map.
#[derive(Clone, Copy, Debug)]
pub struct MapOptions<'a> {
    /// Its name, for `bpftool map`: up to 15 letters, digits, `_` and `.`.
    pub name: &'a str,
    /// Its kind.
    pub kind: MapKind,
    /// Bytes of a key; 4 for all kinds of arrays.
    pub key_bytes: u32,
    /// Bytes of a value; 4 for programs, devices and sockets.
    pub value_bytes: u32,
    /// The maximum number of entries; for arrays the exact number.
    pub entries: u32,
    /// `BPF_F_` flags, as of `BPF_MAP_CREATE`; 0 for none.
    pub flags: u32,
}

/// A map in the kernel. It is freed when this is dropped and no program refers to it.
#[derive(Debug)]
pub struct Map {
    fd: OwnedFd,
    kind: MapKind,
    key_bytes: usize,
    value_bytes: usize,
}

impl Map {
    /// Creates a map.
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
        let fd = late::create_map(&mut request);
        Ok(Self {
            fd: fd.map_err(BpfError::system("BPF_MAP_CREATE"))?,
            kind: options.kind,
            key_bytes: options.key_bytes as usize,
            value_bytes: options.value_bytes as usize,
        })
    }

    /// Sets the value of a key, new or existing.
    ///
    /// # Errors
    /// [`BpfError`] with the kernel's error.
    ///
    /// # Panics
    /// If key or value do not have the map's sizes, or the map is a per-CPU map.
    pub fn update(&self, key: &[u8], value: &[u8]) -> Result<(), BpfError> {
        assert_ne!(self.kind, MapKind::PerCpuArray, "a value for each core");
        assert_eq!(value.len(), self.value_bytes, "bytes of a value");
        let mut request = self.element(key, call::address(value.as_ptr()));
        // SAFETY: B1: `element` has checked the key, and the value has the map's size.
        let result = unsafe { call::bpf(call::MAP_UPDATE_ELEMENT, &mut request) };
        result.map(drop).map_err(BpfError::system("BPF_MAP_UPDATE_ELEM"))
    }

    /// Stores a descriptor (of a program or socket) or an interface number in such an array.
    ///
    /// # Errors
    /// [`BpfError`] with the kernel's error.
    ///
    /// # Panics
    /// If the map's keys or values do not have 4 bytes.
    pub fn set(&self, index: u32, value: u32) -> Result<(), BpfError> {
        self.update(&index.to_ne_bytes(), &value.to_ne_bytes())
    }

    /// Returns the value of a key; `None` if it has none.
    ///
    /// # Errors
    /// [`BpfError`] with the kernel's error.
    ///
    /// # Panics
    /// If the key does not have the map's size, or the map is a per-CPU map.
    pub fn lookup(&self, key: &[u8]) -> Result<Option<Vec<u8>>, BpfError> {
        assert_ne!(self.kind, MapKind::PerCpuArray, "a value for each core");
        self.lookup_bytes(key, self.value_bytes)
    }

    /// Returns the values of a key in a per-CPU map, one for each possible core.
    ///
    /// # Errors
    /// [`BpfError`] with the kernel's error.
    ///
    /// # Panics
    /// If the key does not have the map's size, or the map is not a per-CPU map.
    pub fn lookup_per_cpu(&self, key: &[u8]) -> Result<Vec<Vec<u8>>, BpfError> {
        assert_eq!(self.kind, MapKind::PerCpuArray, "one value for all cores");
        // Source: bpf_map_value_size, kernel/bpf/syscall.c.
        let stride = self.value_bytes.next_multiple_of(8);
        let cores = possible_cpus()?;
        let values = self.lookup_bytes(key, stride * cores as usize)?.unwrap_or_default();
        Ok(values.chunks_exact(stride).map(|value| value[..self.value_bytes].to_vec()).collect())
    }

    /// Deletes a key; returns `false` if it is not there.
    ///
    /// # Errors
    /// [`BpfError`] with the kernel's error; of arrays, only those of programs, devices and sockets
    /// allow it.
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
        // SAFETY: B1: `element` has checked the key; `value` has room for what the kernel writes:
        // one value, or a rounded-up value for each possible core.
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

/// Returns the number of possible cores, including offline ones and empty CPU sockets: the kernel
/// numbers them `[0, possible_cpus)`.
///
/// # Errors
/// [`BpfError::System`], also if the kernel's list cannot be parsed.
pub fn possible_cpus() -> Result<u32, BpfError> {
    let list = fs::read_to_string(POSSIBLE).map_err(BpfError::system(POSSIBLE))?;
    let last = list.trim().rsplit([',', '-']).next().and_then(|last| last.parse::<u32>().ok());
    let none = || BpfError::system(POSSIBLE)(io::ErrorKind::InvalidData.into());
    last.map(|last| last + 1).ok_or_else(none)
}

/// A missing key is not an error.
fn found(result: io::Result<i32>) -> io::Result<Option<()>> {
    match result {
        Ok(_) => Ok(Some(())),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
        Err(error) => Err(error),
    }
}
