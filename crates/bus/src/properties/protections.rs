//! Settings that protect a unit, or give it other files, where their properties are more than a switch, a word or a
//! list: as systemd's clients read them, from what the unit's files ask for.

use warren_sandbox::credentials::{self, Source};
use warren_sandbox::images::{Image, Place, Splits};
use warren_sandbox::mounts::{Content, Entry, Plan, Propagation};
use warren_unit::config::ExecConfig;
use warren_unit::value::plain_words;

use super::values;
use crate::wire::Writer;

/// MS_REC of mount(2).
const RECURSIVE: u64 = 1 << 14;

/// What is asked for by a setting; its lines if it is stated more than once.
fn asked<'a>(exec: &'a ExecConfig, setting: &str) -> Option<&'a str> {
    let mut all = exec.protections.iter().chain(&exec.sandbox);
    all.find(|asked| asked.setting == setting).map(|asked| &*asked.value)
}

/// The plan of one setting alone.
fn plan(exec: &ExecConfig, setting: &str) -> Plan {
    let mut plan = Plan::default();
    if let Some(value) = asked(exec, setting) {
        let words = plain_words(value);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        plan.take(setting, &words, &mut Vec::new());
    }
    plan
}

/// Paths of a setting with the signs before them.
pub fn paths<'w>(exec: &ExecConfig, setting: &str, out: &'w mut Writer) -> &'w mut Writer {
    let plan = plan(exec, setting);
    let sign = |is_set: bool, sign| if is_set { sign } else { "" };
    let path = |Entry { path, optional, in_root, .. }: &Entry| {
        format!("{}{}{path}", sign(*optional, "-"), sign(*in_root, "+"))
    };
    let paths: Vec<String> = plan.entries.iter().map(path).collect();
    out.strs(paths.iter().map(String::as_str))
}

/// `ExtensionDirectories`
pub fn directories<'w>(exec: &ExecConfig, out: &'w mut Writer) -> &'w mut Writer {
    let plan = plan(exec, "ExtensionDirectories");
    let path = |image: &Image| format!("{}{}", if image.optional { "-" } else { "" }, image.path);
    let paths: Vec<String> = plan.images.iter().map(path).collect();
    out.strs(paths.iter().map(String::as_str))
}

/// A text; none is empty.
pub fn text<'w>(exec: &ExecConfig, setting: &str, out: &'w mut Writer) -> &'w mut Writer {
    out.str(asked(exec, setting).unwrap_or_default())
}

/// `MountAPIVFS`: what a unit with another root gets that says nothing of it, too.
pub fn has_api_file_systems(exec: &ExecConfig) -> bool {
    match asked(exec, "MountAPIVFS") {
        Some(word) => values::is_yes(word),
        None => exec.root_directory.is_some() || asked(exec, "RootImage").is_some(),
    }
}

/// `MountFlags`, as mount(2) has it.
pub fn propagation(exec: &ExecConfig) -> u64 {
    const PRIVATE: u64 = 1 << 18;
    const SLAVE: u64 = 1 << 19;
    const SHARED: u64 = 1 << 20;
    match (asked(exec, "MountFlags"), plan(exec, "MountFlags").propagation) {
        (None, _) => 0,
        (_, Propagation::Shared) => SHARED,
        (_, Propagation::Slave) => SLAVE,
        (_, Propagation::Private) => PRIVATE,
    }
}

/// `BindPaths` and `BindReadOnlyPaths`: source, target, whether it may be missing, flags of mount(2).
pub fn binds<'w>(exec: &ExecConfig, setting: &str, out: &'w mut Writer) -> &'w mut Writer {
    let plan = plan(exec, setting);
    out.array(b'(', |out| {
        for Entry { path, optional, content, .. } in &plan.entries {
            if let Content::Bind { source, recursive, .. } = content {
                let flags = if *recursive { RECURSIVE } else { 0 };
                out.structure().str(source).str(path).bool(*optional).u64(flags);
            }
        }
    })
}

/// `TemporaryFileSystem`: paths and options.
pub fn temporary<'w>(exec: &ExecConfig, out: &'w mut Writer) -> &'w mut Writer {
    let words = asked(exec, "TemporaryFileSystem").map(plain_words).unwrap_or_default();
    out.array(b'(', |out| {
        for word in &words {
            let (path, options) = word.split_once(':').unwrap_or((word, ""));
            let mut problems = Vec::new();
            Plan::default().take("TemporaryFileSystem", &[word], &mut problems);
            if problems.is_empty() {
                out.structure().str(values::simple_path(path)).str(options);
            }
        }
    })
}

/// `RootImage`
pub fn root_image<'w>(exec: &ExecConfig, out: &'w mut Writer) -> &'w mut Writer {
    let plan = plan(exec, "RootImage");
    out.str(plan.images.first().map_or("", |image| &image.path))
}

/// `RootImageOptions`: parts and options.
pub fn root_image_options<'w>(exec: &ExecConfig, out: &'w mut Writer) -> &'w mut Writer {
    splits(&plan(exec, "RootImageOptions").root_options, out)
}

/// `MountImages`: source, target, whether it may be missing, options by part.
pub fn mounted_images<'w>(exec: &ExecConfig, out: &'w mut Writer) -> &'w mut Writer {
    let plan = plan(exec, "MountImages");
    out.array(b'(', |out| {
        for Image { path, optional, place, options } in &plan.images {
            if let Place::Path(target) = place {
                splits(options, out.structure().str(path).str(target).bool(*optional));
            }
        }
    })
}

/// `ExtensionImages`: source, whether it may be missing, options by part.
pub fn extension_images<'w>(exec: &ExecConfig, out: &'w mut Writer) -> &'w mut Writer {
    let plan = plan(exec, "ExtensionImages");
    out.array(b'(', |out| {
        for Image { path, optional, options, .. } in &plan.images {
            splits(options, out.structure().str(path).bool(*optional));
        }
    })
}

fn splits<'w>(splits: &Splits, out: &'w mut Writer) -> &'w mut Writer {
    out.array(b'(', |out| {
        for (part, options) in splits {
            out.structure().str(part.name()).str(options);
        }
    })
}

/// A hash or a signature as bytes; none if the setting names a file.
pub fn hash<'w>(exec: &ExecConfig, setting: &str, out: &'w mut Writer) -> &'w mut Writer {
    use base64::Engine as _;
    // Of dm-verity's hashes none is shorter.
    const BYTES_MIN: usize = 16;
    let value = asked(exec, setting).unwrap_or_default();
    let bytes = match value.strip_prefix("base64:") {
        Some(text) => base64::engine::general_purpose::STANDARD.decode(text).ok(),
        None => from_hex(value).filter(|bytes| bytes.len() >= BYTES_MIN),
    };
    out.bytes(&bytes.unwrap_or_default())
}

/// The file that has it, if the setting names one.
pub fn hash_path<'w>(exec: &ExecConfig, setting: &str, out: &'w mut Writer) -> &'w mut Writer {
    let value = asked(exec, setting).filter(|value| value.starts_with('/'));
    out.str(value.unwrap_or_default())
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|digit| digit.to_digit(16).map(|value| value as u8)).collect();
    let pairs = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(pairs.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

/// `LoadCredential` and `LoadCredentialEncrypted`: names and where they come from.
pub fn loaded_credentials<'w>(
    exec: &ExecConfig,
    setting: &str,
    out: &'w mut Writer,
) -> &'w mut Writer {
    let lines = asked(exec, setting).unwrap_or_default().lines();
    let all: Vec<_> = lines.filter_map(|line| credentials::parse(setting, line).ok()).collect();
    out.array(b'(', |out| {
        for credential in &all {
            if let Source::Path(from) | Source::Store(from) = &credential.source {
                out.structure().str(&credential.id).str(from);
            }
        }
    })
}
