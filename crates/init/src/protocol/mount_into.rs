//! What warrend has another warren-exec mount for a process that runs (`systemctl bind`, `systemctl mount-image`).
//!
//! It travels in the arguments of that program: `--mount-into=PARENT`, then the words of a [`MountInto`]. The pidfd of
//! the process is its standard input. It mounts all of it or nothing, and says on its standard output why not.

use std::fmt::Write as _;

/// The argument that asks for it, before the pid of warrend.
pub const MOUNT_INTO: &str = "--mount-into=";

/// What is mounted for a process, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountInto {
    /// A path of the host.
    pub source: String,
    /// A path as the process sees it.
    pub destination: String,
    /// Nothing can be written to it.
    pub read_only: bool,
    /// The destination is made if nothing is there.
    pub makes: bool,
    /// The source is an image: a part and options of its mount, in turns. Else it is bound as it is.
    pub image: Option<Vec<(String, String)>>,
}

/// Why nothing was mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotMounted {
    /// The process has no mounts of its own.
    NotPrivate,
    /// A step failed: the number of the error, if there is one, and what is known besides.
    Failed {
        /// Of errno(3); 0 for none.
        errno: i32,
        /// In words; may be empty.
        detail: String,
    },
}

impl MountInto {
    /// The words behind the first argument.
    pub fn to_words(&self) -> Vec<String> {
        let kind = if self.image.is_some() { "image" } else { "bind" };
        let access = if self.read_only { "ro" } else { "rw" };
        let place = if self.makes { "make" } else { "there" };
        let mut words: Vec<String> = [kind, access, place].map(str::to_owned).into();
        words.extend([self.source.clone(), self.destination.clone()]);
        let options = self.image.iter().flatten();
        words.extend(options.flat_map(|(part, options)| [part.clone(), options.clone()]));
        words
    }

    /// The same read; nothing if it is none.
    pub fn from_words(words: &[String]) -> Option<MountInto> {
        let [kind, access, place, source, destination, options @ ..] = words else { return None };
        let either = |word: &str, yes: &str, no: &str| match word {
            _ if word == yes => Some(true),
            _ if word == no => Some(false),
            _ => None,
        };
        let is_image = either(kind, "image", "bind")?;
        let pairs = options.chunks_exact(2);
        if !pairs.remainder().is_empty() || !is_image && !options.is_empty() {
            return None;
        }
        let pairs = pairs.filter_map(|pair| match pair {
            [part, options] => Some((part.clone(), options.clone())),
            _ => None,
        });
        Some(MountInto {
            source: source.clone(),
            destination: destination.clone(),
            read_only: either(access, "ro", "rw")?,
            makes: either(place, "make", "there")?,
            image: is_image.then(|| pairs.collect()),
        })
    }
}

impl NotMounted {
    const NOT_PRIVATE: &str = "not-private";

    /// What the program prints.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = match self {
            NotMounted::NotPrivate => write!(text, "{}", NotMounted::NOT_PRIVATE),
            NotMounted::Failed { errno, detail } => write!(text, "{errno} {detail}"),
        };
        text
    }

    /// The same read. What cannot be read is a reason in itself.
    pub fn from_text(text: &str) -> NotMounted {
        if text == NotMounted::NOT_PRIVATE {
            return NotMounted::NotPrivate;
        }
        let number =
            text.split_once(' ').and_then(|(first, rest)| Some((first.parse().ok()?, rest)));
        let (errno, detail) = number.unwrap_or((0, text));
        NotMounted::Failed { errno, detail: detail.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_and_why_it_is_not_done_come_through() {
        let image = Some(vec![("root".to_owned(), "noatime".to_owned())]);
        for (read_only, makes, image) in [(true, false, None), (false, true, image)] {
            let (source, destination) = ("/a b".to_owned(), "/c".to_owned());
            let asked = MountInto { source, destination, read_only, makes, image };
            assert_eq!(MountInto::from_words(&asked.to_words()), Some(asked));
        }
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for wrong in ["bind rw there /a", "bind rw there /a /b root ro", "image ro make /a /b root"]
        {
            assert_eq!(MountInto::from_words(&words(wrong)), None, "{wrong}");
        }
        let failed = |errno, detail: &str| NotMounted::Failed { errno, detail: detail.to_owned() };
        for why in [NotMounted::NotPrivate, failed(2, ""), failed(0, "no such part")] {
            assert_eq!(NotMounted::from_text(&why.to_text()), why);
        }
        assert_eq!(NotMounted::from_text("killed"), failed(0, "killed"));
    }
}
