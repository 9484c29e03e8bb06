//! The words of the settings of images (systemd.exec(5), "MountImages=").

use serde::{Deserialize, Serialize};

use super::Role;

/// Options of mounts by the part of an image that they are for.
pub type Splits = Vec<(Role, String)>;

/// An image, or a directory that is laid over others as one is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// Where it is on the host.
    pub path: String,
    /// Nothing is amiss if it is not there.
    pub optional: bool,
    /// Where it is seen.
    pub place: Place,
    /// Options of mount(8).
    pub options: Splits,
}

/// Where an image is seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Place {
    /// It is the unit's root (RootImage=).
    Root,
    /// At this path (MountImages=).
    Path(String),
    /// Laid over /usr and /opt (ExtensionImages=).
    Extension,
    /// It is a directory, and laid over them (ExtensionDirectories=).
    ExtensionDirectory,
}

/// Whether a setting asks for images, or for directories that are used as they are.
pub fn concerns(setting: &str) -> bool {
    matches!(
        setting,
        "RootImage"
            | "RootImageOptions"
            | "MountImages"
            | "ExtensionImages"
            | "ExtensionDirectories"
    )
}

impl Image {
    /// `[-]SOURCE:PATH[:OPTIONS]`
    pub(crate) fn mounted(word: &str) -> Result<Image, String> {
        let (parts, optional) = parts(word);
        let [source, target, options @ ..] = &parts[..] else {
            return Err("has no mount point".to_owned());
        };
        let place = Place::Path(absolute(target)?);
        Ok(Image { path: absolute(source)?, optional, place, options: tuples(options)? })
    }

    /// `[-]SOURCE[:OPTIONS]`
    pub(crate) fn extension(word: &str) -> Result<Image, String> {
        let (parts, optional) = parts(word);
        let (source, options) = parts.split_first().ok_or("is empty")?;
        let options = tuples(options)?;
        Ok(Image { path: absolute(source)?, optional, place: Place::Extension, options })
    }

    /// `[-]PATH`
    pub(crate) fn directory(word: &str) -> Result<Image, String> {
        let (path, optional) = word.strip_prefix('-').map_or((word, false), |rest| (rest, true));
        let place = Place::ExtensionDirectory;
        Ok(Image { path: absolute(path)?, optional, place, options: Splits::new() })
    }

    /// A path alone.
    pub(crate) fn root(path: &str) -> Result<Image, String> {
        let place = Place::Root;
        Ok(Image { path: absolute(path)?, optional: false, place, options: Splits::new() })
    }
}

/// Words of `RootImageOptions=`: `[PART:]OPTIONS`.
///
/// # Errors
/// That the part is none that is known.
pub fn parse_options(word: &str) -> Result<(Role, String), String> {
    match word.split_once(':') {
        None => Ok((Role::Root, word.to_owned())),
        Some((part, options)) => Ok((role(part)?, options.to_owned())),
    }
}

fn role(name: &str) -> Result<Role, String> {
    Role::from_name(name)
        .ok_or_else(|| format!("has '{name}', which is not a partition designator"))
}

/// Either one list of options, or a part and its options in turns.
fn tuples(parts: &[String]) -> Result<Splits, String> {
    match parts {
        [options] => Ok(vec![(Role::Root, options.clone())]),
        parts if parts.len().is_multiple_of(2) => parts
            .chunks_exact(2)
            .map(|pair| match pair {
                [part, options] => Ok((role(part)?, options.clone())),
                _ => Err("has a partition without options".to_owned()),
            })
            .collect(),
        _ => Err("has a partition without options".to_owned()),
    }
}

/// What is between colons, and whether there is a `-` before it. A colon behind a backslash is one of the text.
pub(crate) fn parts(word: &str) -> (Vec<String>, bool) {
    let (rest, optional) = word.strip_prefix('-').map_or((word, false), |rest| (rest, true));
    let mut parts = vec![String::new()];
    let mut chars = rest.chars().peekable();
    while let Some(c) = chars.next() {
        let last = parts.last_mut().expect("there is one from the start");
        match c {
            '\\' if chars.peek() == Some(&':') => last.extend(chars.next()),
            ':' => parts.push(String::new()),
            c => last.push(c),
        }
    }
    (parts, optional)
}

/// An absolute path without `..`.
fn absolute(path: &str) -> Result<String, String> {
    crate::paths::simple(path)
}
