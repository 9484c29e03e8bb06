//! Images of disks, mounted before there is a process (RootImage= and its like, systemd.exec(5)).
//!
//! The helper itself goes into mounts of its own, where nobody else sees what it mounts, and makes the process there.
//! In them an image is a directory below [`AT`]: the rest of a view is made of directories, as it would be without
//! images. The helper goes back before it takes another request ([`Space`]). If it is killed, its mounts go with it, and
//! with the last mount of an image its loop device.
//!
//! Whether an image is sound is for the kernel's file systems to say; what their sizes and tables of partitions say is
//! looked at here, and refused by name.

use std::fs::{self, File};
use std::io::Read as _;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;

use warren_init::protocol::ExecStep;
use warren_init::protocol::exec::{ExecSpec, SpawnError};
use warren_sandbox::images::{HEAD_BYTES, Image, Layout, Place, Role, Splits, file_system, layout};
use warren_sandbox::mounts::{Content, Entry};
use warren_sys::errno::{EACCES, ENOENT, EPERM, EROFS, ETXTBSY};
use warren_sys::loop_device::{self, LoopDevice, Section};
use warren_sys::mount::{self, MountFlags, MountOptions, own};
use warren_sys::namespace::{self, Namespaces};

use crate::extensions;
use crate::fault::{c_string, failed, wrong};

const STEP: ExecStep = ExecStep::Namespace;

/// Where they are, in mounts that the process and the helper alone have.
pub const AT: &str = "/run/warren/images";

/// Images of one unit.
const IMAGES_MAX: usize = 64;

/// The mounts that a helper was in before. It goes back to them when this is dropped.
pub struct Space(OwnedFd);

impl Drop for Space {
    fn drop(&mut self) {
        if namespace::enter(self.0.as_fd(), Namespaces::MOUNT).is_err() {
            // No other unit may begin in what is this one's.
            std::process::abort();
        }
    }
}

/// Mounts what the spec asks for and has its view say where it is; nothing if it asks for none.
pub fn enter(spec: &mut ExecSpec) -> Result<Option<Space>, SpawnError> {
    let images = std::mem::take(&mut spec.view.plan.images);
    if images.is_empty() {
        return Ok(None);
    }
    if images.len() > IMAGES_MAX {
        return Err(failed(STEP, 0, format!("more than {IMAGES_MAX} images")));
    }
    let (space, lock) = begin()?;
    let mut extensions = Vec::new();
    for (at, image) in images.iter().enumerate() {
        let directory = format!("{AT}/{at}");
        if image.place == Place::ExtensionDirectory {
            if let Some(path) = bind_directory(image, &directory)? {
                extensions.push((image, path));
            }
            continue;
        }
        let mut options = image.options.clone();
        if image.place == Place::Root {
            options.extend(spec.view.plan.root_options.clone());
        }
        if !mount_image(image, &options, &directory, &lock)? {
            continue;
        }
        match &image.place {
            Place::Root => spec.root_directory = Some(directory),
            Place::Path(path) => {
                spec.view.plan.entries.push(bound(directory, path.clone(), image.optional));
            }
            Place::Extension | Place::ExtensionDirectory => extensions.push((image, directory)),
        }
    }
    // Also where there is nothing but another root: the helper's mounts are not the unit's.
    spec.view.plan.private_mounts = true;
    let root = spec.root_directory.clone().unwrap_or_default();
    for (from, to) in extensions::lay_over(&extensions, &root)? {
        spec.view.plan.entries.push(bound(from, to.to_owned(), false));
    }
    Ok(Some(space))
}

/// Goes into mounts of its own, where images are below [`AT`]. The lock is for those who look for a device and make one.
fn begin() -> Result<(Space, File), SpawnError> {
    // What others see of it stays empty.
    fs::DirBuilder::new().recursive(true).mode(0o700).create(AT).map_err(|e| io_failed(AT, &e))?;
    let lock = File::open(AT).map_err(|e| io_failed(AT, &e))?;
    let before = namespace::open("/proc/thread-self/ns/mnt").map_err(|e| wrong(STEP, &e))?;
    own::begin().map_err(|e| wrong(STEP, &e))?;
    let space = Space(before);
    let place = own::file_system(c"tmpfs", [(c"mode", Some(c"0700"))].into_iter())
        .and_then(|made| own::attach(made.as_fd(), own::place(&c_text(AT))?.as_fd()));
    place.map_err(|e| wrong(STEP, &e))?;
    Ok((space, lock))
}

/// The mounts of one image, that are nowhere yet.
pub fn mount_alone(image: &Image) -> Result<OwnedFd, SpawnError> {
    let (_space, lock) = begin()?;
    let directory = format!("{AT}/0");
    mount_image(image, &image.options, &directory, &lock)?;
    let copy = own::place(&c_text(&directory)).and_then(|place| own::copy(place.as_fd(), true));
    copy.map_err(|e| wrong(STEP, &e))
}

/// Whether a spec has something of an image.
pub fn are_used(spec: &ExecSpec) -> bool {
    let is_of_image = |entry: &Entry| match &entry.content {
        Content::Bind { source, .. } => source.starts_with(AT),
        _ => false,
    };
    let root = spec.root_directory.as_deref();
    root.is_some_and(|root| root.starts_with(AT)) || spec.view.plan.entries.iter().any(is_of_image)
}

fn bound(source: String, path: String, optional: bool) -> Entry {
    let content = Content::Bind { source, recursive: true, read_only: false };
    Entry { path, in_root: true, optional, content }
}

/// A directory at a path of our own, which has none of the signs in it that an overlay gives a meaning.
fn bind_directory(image: &Image, at: &str) -> Result<Option<String>, SpawnError> {
    match fs::metadata(&image.path) {
        Ok(found) if found.is_dir() => {}
        Ok(_) => return Err(failed(STEP, 0, format!("{} is not a directory", image.path))),
        Err(e) if image.optional && e.raw_os_error() == Some(ENOENT) => return Ok(None),
        Err(e) => return Err(io_failed(&image.path, &e)),
    }
    let path = fs::canonicalize(&image.path).map_err(|e| io_failed(&image.path, &e))?;
    bind(&path.to_string_lossy(), at)?;
    Ok(Some(at.to_owned()))
}

/// Binds a directory to a path below [`AT`], which is made. No part of either is a link: what is in an image may be
/// exchanged by those who write to it.
pub fn bind(from: &str, to: &str) -> Result<(), SpawnError> {
    make_directory(to)?;
    let bound = || {
        let copy = own::copy(own::place(&c_text(from))?.as_fd(), false)?;
        own::attach(copy.as_fd(), own::place(&c_text(to))?.as_fd())
    };
    bound().map_err(|e: warren_sys::Error| failed(STEP, e.errno, from.to_owned()))
}

/// Makes a directory below [`AT`] that everybody may enter who sees it.
pub fn make_directory(path: &str) -> Result<(), SpawnError> {
    const MODE: u32 = 0o755;
    own::make_directory(None, &c_string(path, STEP)?, MODE).map_err(|e| wrong(STEP, &e))
}

/// Mounts the parts of an image at a directory, which is made. False if it may be missing, and is.
fn mount_image(
    image: &Image,
    options: &Splits,
    directory: &str,
    lock: &File,
) -> Result<bool, SpawnError> {
    let path = &image.path;
    let refused = |why: String| failed(STEP, 0, format!("{path}: {why}"));
    let Some((file, is_writable)) = open(image)? else { return Ok(false) };
    let found = file.metadata().map_err(|e| io_failed(path, &e))?;
    let is_device = found.file_type().is_block_device();
    if !is_device && !found.is_file() {
        return Err(refused("neither a regular file nor a block device".to_owned()));
    }
    refuse_hash(path)?;
    let bytes = size(&file, path)?;
    let head = head(&file, path)?;
    make_directory(directory)?;
    let parts = match layout(&head, bytes).map_err(refused)? {
        Layout::Whole(kind) if is_device => {
            let settings = (options, !is_writable || image.place == Place::Extension);
            mount_part(path, (Path::new(path), kind), Role::Root, settings, directory)?;
            return Ok(true);
        }
        Layout::Whole(_) => vec![warren_sandbox::images::Part {
            role: Role::Root,
            bytes: 0..bytes,
            read_only: false,
        }],
        Layout::Parts(parts) => parts,
    };
    let has_root = parts.iter().any(|part| part.role == Role::Root);
    for part in parts {
        let Some(below) = part.role.mount_point() else { continue };
        let asked = options.iter().any(|(role, options)| {
            *role == part.role && options.split(',').any(|option| option == "ro")
        });
        let is_layer = image.place == Place::Extension;
        let read_only = !is_writable || part.read_only || asked || is_layer;
        let offset = part.bytes.start;
        // All of a file is that also when it grows: there is one device for it all the same.
        let length = if part.bytes == (0..bytes) { 0 } else { part.bytes.end - offset };
        let section = Section { offset, bytes: length, read_only };
        let device = device(&file, section, lock).map_err(|e| {
            failed(STEP, e.errno, format!("{path}: cannot get a loop device: {}", e.what()))
        })?;
        let begin = self::head(&open_device(&device.path)?, path)?;
        let kind = file_system(&begin).ok_or_else(|| {
            refused(format!("its partition {:?} has no file system that Warrener knows", part.role))
        })?;
        let at = format!("{directory}{below}");
        if part.role == Role::Usr && !has_root {
            make_directory(&at)?;
        }
        // A root without a place for it does without, as with systemd 252; no link of an image leads out of it.
        if below.is_empty() || is_directory(&at) {
            mount_part(path, (&device.path, kind), part.role, (options, read_only), &at)?;
        }
    }
    Ok(true)
}

/// Whether there is a directory at this path, and no link on the way to it.
fn is_directory(at: &str) -> bool {
    own::place(&c_text(at)).is_ok_and(|place| {
        fs::metadata(warren_sys::file::descriptor_path(place.as_fd())).is_ok_and(|f| f.is_dir())
    })
}

/// Opens an image; false if it cannot be written to.
fn open(image: &Image) -> Result<Option<(File, bool)>, SpawnError> {
    let opened = |writes: bool| {
        // What is no file or device holds nobody up.
        let flags = warren_sys::file::NONBLOCK;
        fs::OpenOptions::new().read(true).write(writes).custom_flags(flags).open(&image.path)
    };
    match opened(true) {
        Ok(file) => return Ok(Some((file, true))),
        Err(e) if matches!(e.raw_os_error(), Some(EROFS | EACCES | EPERM | ETXTBSY)) => {}
        Err(e) if image.optional && e.raw_os_error() == Some(ENOENT) => return Ok(None),
        Err(e) => return Err(io_failed(&image.path, &e)),
    }
    opened(false).map(|file| Some((file, false))).map_err(|e| io_failed(&image.path, &e))
}

fn open_device(path: &Path) -> Result<File, SpawnError> {
    File::open(path).map_err(|e| io_failed(&path.to_string_lossy(), &e))
}

/// Bytes of a file or a block device.
fn size(file: &File, path: &str) -> Result<u64, SpawnError> {
    use std::io::{Seek as _, SeekFrom};
    let mut file = file;
    let end = file.seek(SeekFrom::End(0)).and_then(|end| file.rewind().map(|()| end));
    end.map_err(|e| io_failed(path, &e))
}

/// The first bytes; fewer of what is shorter.
fn head(file: &File, path: &str) -> Result<Vec<u8>, SpawnError> {
    let mut head = Vec::with_capacity(HEAD_BYTES);
    let read = file.take(HEAD_BYTES as u64).read_to_end(&mut head);
    read.map(|_| head).map_err(|e| io_failed(path, &e))
}

/// Nothing runs of an image whose blocks are to be checked.
pub fn refuse_hash(path: &str) -> Result<(), SpawnError> {
    let Some(hash) = root_hash(path) else { return Ok(()) };
    let why = "and verifying its blocks (dm-verity) is not supported";
    Err(failed(STEP, 0, format!("{path}: there is a root hash for it ({hash}), {why}")))
}

/// What says beside an image that its blocks are to be checked (systemd.exec(5), "RootHash=").
fn root_hash(path: &str) -> Option<String> {
    const ATTRIBUTES: [&str; 2] = ["user.verity.roothash", "user.verity.usrhash"];
    let stem = path.strip_suffix(".raw").unwrap_or(path);
    let files = ["roothash", "usrhash"].map(|end| format!("{stem}.{end}"));
    let file = files.into_iter().find(|file| Path::new(file).exists());
    let attribute = || {
        let has = |name: &&&str| warren_sys::file::has_attribute(path, name);
        ATTRIBUTES.iter().find(has).map(|name| (*name).to_owned())
    };
    file.or_else(attribute)
}

/// A section of an image as a device. One that is written to is one device for all, so that nothing is damaged.
fn device(file: &File, section: Section, lock: &File) -> warren_sys::Result<LoopDevice> {
    let nodes = Path::new(AT);
    if section.read_only {
        return loop_device::attach(file, section, nodes);
    }
    let _held = warren_sys::file::lock(lock)?;
    match loop_device::find(file, section, nodes)? {
        Some(device) => Ok(device),
        None => loop_device::attach(file, section, nodes),
    }
}

/// Mounts one file system of an image.
fn mount_part(
    image: &str,
    (device, kind): (&Path, &str),
    role: Role,
    (options, read_only): (&Splits, bool),
    at: &str,
) -> Result<(), SpawnError> {
    let stated = options.iter().filter(|(of, _)| *of == role).map(|(_, options)| &**options);
    let mut options = MountOptions::parse(&stated.collect::<Vec<_>>().join(","));
    if options.remount || options.flags.contains(MountFlags::BIND) {
        return Err(failed(
            STEP,
            0,
            format!("{image}: the options belong to another kind of mount"),
        ));
    }
    let is_packed = matches!(kind, "squashfs" | "erofs");
    if read_only || is_packed {
        options.flags |= MountFlags::RDONLY;
    }
    // A journal cannot be replayed where nothing can be written.
    if read_only && matches!(kind, "ext4" | "xfs") {
        options.data.push("norecovery".to_owned());
    }
    options.userspace.clear();
    let place = own::place(&c_text(at)).map_err(|e| wrong(STEP, &e))?;
    // By the descriptor: who writes to the image may put a link there meanwhile.
    let at = format!("{}/.", warren_sys::file::descriptor_path(place.as_fd()));
    mount::mount_fs(&device.to_string_lossy(), &at, kind, &options).map_err(|e| {
        let why = warren_sys::error::errno_text(e.errno);
        failed(STEP, e.errno, format!("{image}: cannot mount its {kind} file system: {why}"))
    })
}

fn c_text(text: &str) -> std::ffi::CString {
    std::ffi::CString::new(text).unwrap_or_default()
}

/// An error of the standard library about a path.
pub fn io_failed(path: &str, error: &std::io::Error) -> SpawnError {
    failed(STEP, error.raw_os_error().unwrap_or(0), path.to_owned())
}
