//! A file whose bytes are in memory. It cannot be written.

use std::sync::Arc;
use warren_sys::errno::EROFS;

use crate::error::{Error, Result};
use crate::files::File;

/// The bytes of a file, read once.
#[derive(Clone, Debug)]
pub struct InMemory {
    name: String,
    bytes: Arc<[u8]>,
}

impl InMemory {
    /// A file of this name with these bytes.
    pub fn new(name: &str, bytes: impl Into<Arc<[u8]>>) -> InMemory {
        InMemory { name: name.to_owned(), bytes: bytes.into() }
    }

    /// The bytes that a file has now.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn read(file: &dyn File, name: &str) -> Result<InMemory> {
        let mut bytes = vec![0; file.len()? as usize];
        let count = file.read_at(&mut bytes, 0)?;
        bytes.truncate(count);
        Ok(InMemory::new(name, bytes))
    }

    fn refuse(&self, op: &'static str) -> Error {
        Error::Io { op, name: self.name.clone(), errno: EROFS }
    }
}

impl File for InMemory {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let begin = usize::try_from(offset).unwrap_or(usize::MAX);
        let rest = self.bytes.get(begin..).unwrap_or(&[]);
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn write_at(&self, _bytes: &[u8], _offset: u64) -> Result<()> {
        Err(self.refuse("write"))
    }

    fn sync(&self) -> Result<()> {
        Err(self.refuse("sync"))
    }

    fn len(&self) -> Result<u64> {
        Ok(self.bytes.len() as u64)
    }
}
