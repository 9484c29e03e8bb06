//! A block device or an image file, opened for reading.
//!
//! Never exclusively, never waiting for a peer (a FIFO, a drive without a disk), and never through
//! the page-cache-less way: alignment would be needed and nothing gained for a few KiB.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;

use crate::read::{ReadAt, ReadError};

/// An open device.
pub struct DeviceFile {
    file: File,
    size: u64,
}

/// `O_NONBLOCK` of open(2), the same number on every architecture Warrener runs on.
const O_NONBLOCK: i32 = 0o4000;

impl DeviceFile {
    /// Opens a block device or a regular file. Anything else is `InvalidInput`, and is not opened:
    /// of a tape or a watchdog that would do something.
    pub fn open(path: &Path) -> io::Result<DeviceFile> {
        check_kind(&path.metadata()?)?;
        let mut file = OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open(path)?;
        // The path may mean something else by now.
        check_kind(&file.metadata()?)?;
        let size = file.seek(SeekFrom::End(0))?;
        Ok(DeviceFile { file, size })
    }
}

fn check_kind(found: &Metadata) -> io::Result<()> {
    let kind = found.file_type();
    match kind.is_file() || kind.is_block_device() {
        true => Ok(()),
        false => {
            Err(io::Error::new(io::ErrorKind::InvalidInput, "neither a block device nor a file"))
        }
    }
}

impl ReadAt for DeviceFile {
    fn size_bytes(&self) -> u64 {
        self.size
    }

    /// A file is none: an image may be of either.
    fn is_partition(&self) -> bool {
        self.file.metadata().is_ok_and(|found| warren_sys::block::is_partition(&found))
    }

    /// The page cache of a block device does not see what the kernel writes to it.
    fn refresh(&self, offset: u64, bytes: u64) -> bool {
        let is_device = self.file.metadata().is_ok_and(|found| found.file_type().is_block_device());
        is_device && warren_sys::block::drop_cached(&self.file, offset, bytes).is_ok()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, ReadError> {
        let mut done = 0;
        while done < buffer.len() {
            match self.file.read_at(&mut buffer[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let errno = error.raw_os_error().unwrap_or(0);
                    return Err(ReadError { offset: offset + done as u64, errno });
                }
            }
        }
        Ok(done)
    }
}
