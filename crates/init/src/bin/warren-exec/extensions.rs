//! Extensions: images and directories whose /usr and /opt are laid over those of a system (systemd.exec(5),
//! "ExtensionImages="; os-release(5)).

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use warren_init::protocol::ExecStep;
use warren_init::protocol::exec::SpawnError;
use warren_sandbox::images::Image;
use warren_sys::mount::places::{self, Kind};
use warren_sys::mount::{self, MountOptions};

use crate::fault::{failed, wrong};
use crate::images::{AT, bind, make_directory};

const STEP: ExecStep = ExecStep::Namespace;

/// What is laid over.
const HIERARCHIES: [&str; 2] = ["/usr", "/opt"];

/// Where a system says what it is.
const OS_RELEASE: [&str; 2] = ["/etc/os-release", "/usr/lib/os-release"];

/// Where an extension says what it is for.
const RELEASES: &str = "/usr/lib/extension-release.d";

/// What does for any name of an extension.
const RELAXED: &str = "x-systemd.relax-extension-release-check";

/// Bytes of a file about a release.
const RELEASE_BYTES_MAX: u64 = 64 << 10;

/// Variables of such a file.
type Release = BTreeMap<String, String>;

/// Lays extensions, each with the directory that it is in, over a system at `root`, which is empty for the host's. The
/// directories that are made so, and what they are to be.
pub fn lay_over(
    extensions: &[(&Image, String)],
    root: &str,
) -> Result<Vec<(String, &'static str)>, SpawnError> {
    if extensions.is_empty() {
        return Ok(Vec::new());
    }
    let system = OS_RELEASE.iter().find_map(|path| read(root, path));
    let system = system.ok_or_else(|| {
        failed(
            STEP,
            0,
            "the system has no os-release file, so no extension can match it".to_owned(),
        )
    })?;
    for (image, at) in extensions {
        let release =
            release_of(image, at).ok_or_else(|| told(image, "it has no extension-release file"))?;
        fits(&system, &release).map_err(|why| told(image, &why))?;
    }
    let mut out = Vec::new();
    for (number, hierarchy) in HIERARCHIES.into_iter().enumerate() {
        let mut layers: Vec<String> = Vec::new();
        // The last one is on top.
        for (_, at) in extensions.iter().rev() {
            layers.extend(directory(at, hierarchy));
        }
        if layers.is_empty() {
            continue;
        }
        if let Some(base) = directory(root, hierarchy) {
            // A path of ours has no sign in it that would end a layer.
            let own = format!("{AT}/base-{number}");
            bind(&base, &own)?;
            layers.push(own);
        }
        let at = format!("{AT}/over-{number}");
        match &layers[..] {
            [one] => bind(one, &at)?,
            layers => {
                make_directory(&at)?;
                let options = MountOptions::parse(&format!("ro,lowerdir={}", layers.join(":")));
                mount::mount_fs("overlay", &at, "overlay", &options)
                    .map_err(|e| wrong(STEP, &e))?;
            }
        }
        out.push((at, hierarchy));
    }
    Ok(out)
}

fn told(image: &Image, why: &str) -> SpawnError {
    failed(STEP, 0, format!("{}: {why}", image.path))
}

/// The directory at a path below a root, if there is one. No link leads out of it.
fn directory(root: &str, path: &str) -> Option<String> {
    let found = resolved(root, path)?;
    (places::kind_of(&found).ok()? == Kind::Directory).then_some(found)
}

fn resolved(root: &str, path: &str) -> Option<String> {
    let root = places::open_place(if root.is_empty() { "/" } else { root }).ok()?;
    places::resolve(std::os::fd::AsFd::as_fd(&root), path).ok()
}

/// The variables of a file below a root; none if it is not there or is too long.
fn read(root: &str, path: &str) -> Option<Release> {
    let flags = warren_sys::file::NONBLOCK | warren_sys::file::NOFOLLOW;
    let file =
        fs::OpenOptions::new().read(true).custom_flags(flags).open(resolved(root, path)?).ok()?;
    let found = file.metadata().ok()?;
    if !found.is_file() || found.len() > RELEASE_BYTES_MAX {
        return None;
    }
    let mut text = String::new();
    file.take(RELEASE_BYTES_MAX).read_to_string(&mut text).ok()?;
    parse(&text)
}

fn parse(text: &str) -> Option<Release> {
    let mut out = Release::new();
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        let Some((name, value)) = line.split_once('=') else { continue };
        let quoted = |sign: char| value.strip_prefix(sign)?.strip_suffix(sign);
        let value = quoted('"').or_else(|| quoted('\'')).unwrap_or(value);
        out.insert(name.to_owned(), value.to_owned());
    }
    Some(out)
}

/// What an extension says of what it extends, in the file of its name, or of any if its options say so.
fn release_of(image: &Image, at: &str) -> Option<Release> {
    let name = Path::new(&image.path).file_name()?.to_str()?;
    let name = name.strip_suffix(".raw").unwrap_or(name);
    if let Some(release) = read(at, &format!("{RELEASES}/extension-release.{name}")) {
        return Some(release);
    }
    let options = image.options.iter().flat_map(|(_, options)| options.split(','));
    if !options.into_iter().any(|option| option == RELAXED) {
        return None;
    }
    let directory = directory(at, RELEASES)?;
    let mut names = fs::read_dir(directory).ok()?.flatten().filter_map(|entry| {
        entry.file_name().into_string().ok().filter(|name| name.starts_with("extension-release."))
    });
    match (names.next(), names.next()) {
        (Some(one), None) => read(at, &format!("{RELEASES}/{one}")),
        _ => None,
    }
}

/// Whether an extension is for this system: the same system, and the same level or version of it.
fn fits(system: &Release, extension: &Release) -> Result<(), String> {
    let of = |release: &Release, name: &str| release.get(name).cloned().unwrap_or_default();
    let id = of(extension, "ID");
    let architecture = of(extension, "ARCHITECTURE");
    if !matches!(&*architecture, "" | "_any") && architecture != own_architecture() {
        return Err(format!("it is for the architecture {architecture}"));
    }
    if id == "_any" {
        return Ok(());
    }
    if id.is_empty() || id != of(system, "ID") {
        return Err(format!("it is for the system {id:?}, and this is {:?}", of(system, "ID")));
    }
    let (level, own_level) = (of(extension, "SYSEXT_LEVEL"), of(system, "SYSEXT_LEVEL"));
    let (asked, own, what) = match level.is_empty() || own_level.is_empty() {
        false => (level, own_level, "level"),
        true => (of(extension, "VERSION_ID"), of(system, "VERSION_ID"), "version"),
    };
    // A system that has no version is none in particular.
    match own.is_empty() || asked == own {
        true => Ok(()),
        false => Err(format!("it is for the {what} {asked:?} of the system, and this is {own:?}")),
    }
}

fn own_architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "x86-64",
        "aarch64" => "arm64",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_are_for_a_system_of_a_version() {
        let system = "# x\nID=debian\nVERSION_ID=\"12\"\n";
        let check = |system: &str, extension: &str, want: &str| {
            let release = |text| parse(text).expect("it is short");
            let got = fits(&release(system), &release(extension)).err().unwrap_or_default();
            assert_eq!(got, want, "{extension}");
        };
        check(system, "ID=debian\nVERSION_ID=12", "");
        check(system, "ID=_any", "");
        check(system, "ID='debian'\nVERSION_ID='12'\nARCHITECTURE=_any", "");
        check(system, "ID=arch", "it is for the system \"arch\", and this is \"debian\"");
        check(system, "", "it is for the system \"\", and this is \"debian\"");
        check(
            system,
            "ID=debian\nVERSION_ID=11",
            "it is for the version \"11\" of the system, and this is \"12\"",
        );
        check(system, "ID=debian", "it is for the version \"\" of the system, and this is \"12\"");
        check(system, "ID=_any\nARCHITECTURE=other", "it is for the architecture other");
        let level = "ID=debian\nVERSION_ID=12\nSYSEXT_LEVEL=2";
        check(level, "ID=debian\nSYSEXT_LEVEL=2", "");
        check(level, "ID=debian\nVERSION_ID=12", "");
        check(
            level,
            "ID=debian\nVERSION_ID=12\nSYSEXT_LEVEL=1",
            "it is for the level \"1\" of the system, and this is \"2\"",
        );
        check("ID=rolling", "ID=rolling", "");
    }
}
