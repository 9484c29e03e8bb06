//! A copy of the unit's root for one run (RootEphemeral=, systemd.exec(5)).
//!
//! The first process of the run makes it and those after it find it: under a name of the helper's own, which becomes
//! that of the copy when all is in it. If the helper is killed before, the next one begins anew. The manager removes the
//! directory around both when the run is over.

use std::fs::{self, File};
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _};
use std::path::Path;

use warren_init::protocol::ExecStep;
use warren_init::protocol::exec::{ExecSpec, SpawnError};
use warren_sandbox::images::Place;
use warren_sys::removal::{self, ENTRIES_MAX};
use warren_sys::{Error, copying};

use crate::fault::{failed, wrong};
use crate::images::{self, io_failed};

const STEP: ExecStep = ExecStep::Namespace;

/// Has the spec use a copy, if it asks for one. `goes_on` is told of each part that is done.
pub fn enter(spec: &mut ExecSpec, goes_on: &dyn Fn()) -> Result<(), SpawnError> {
    let directory = std::mem::take(&mut spec.view.ephemeral_root);
    if directory.is_empty() {
        return Ok(());
    }
    let mut images = spec.view.plan.images.iter_mut();
    if let Some(image) = images.find(|image| image.place == Place::Root) {
        images::refuse_hash(&image.path)?;
        let source = image_file(&image.path)?;
        image.path = made(&directory, "root.raw", |to| copying::copy_file(&source, to, goes_on))?;
        return Ok(());
    }
    let Some(root) = &mut spec.root_directory else { return Ok(()) };
    let source = fs::canonicalize(&root).map_err(|e| io_failed(root, &e))?;
    if source == Path::new("/") {
        return Err(failed(STEP, 0, "refusing to copy the host's own root directory".to_owned()));
    }
    *root = made(&directory, "root", |to| copying::copy_tree(&source, to, goes_on))?;
    Ok(())
}

/// A device is not copied: it may be of any size.
fn image_file(path: &str) -> Result<File, SpawnError> {
    let found = fs::metadata(path).map_err(|e| io_failed(path, &e))?;
    if found.file_type().is_block_device() {
        let why = format!("{path}: RootEphemeral= cannot copy a block device");
        return Err(failed(STEP, 0, why));
    }
    if !found.is_file() {
        return Err(failed(STEP, 0, format!("{path}: not a regular file")));
    }
    File::open(path).map_err(|e| io_failed(path, &e))
}

/// The path of the copy, which is made unless it is there.
fn made(
    directory: &str,
    name: &str,
    copy: impl FnOnce(&Path) -> Result<(), Error>,
) -> Result<String, SpawnError> {
    let path = format!("{directory}/{name}");
    if fs::symlink_metadata(&path).is_ok() {
        return Ok(path);
    }
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(directory).map_err(|e| io_failed(directory, &e))?;
    let part = format!("{path}.{}", std::process::id());
    // Of a spawn of this helper that failed.
    let cleared = match fs::symlink_metadata(&part) {
        Ok(found) if found.is_dir() => {
            removal::remove_directory(Path::new(&part), ENTRIES_MAX).map(|_| ())
        }
        Ok(_) => removal::remove_file(Path::new(&part)),
        Err(_) => Ok(()),
    };
    let part = Path::new(&part);
    let settled = cleared.and_then(|()| copy(part)).and_then(|()| copying::settle(part, &path));
    settled.map(|()| path).map_err(|e| wrong(STEP, &e))
}
