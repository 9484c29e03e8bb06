//! Paths as settings have them.

/// An absolute path without doubled slashes and dots; one with `..` is refused, as systemd refuses it.
pub(crate) fn simple(path: &str) -> Result<String, String> {
    if !path.starts_with('/') {
        return Err("is not an absolute path".to_owned());
    }
    let mut out = String::with_capacity(path.len());
    for part in path.split('/').filter(|part| !part.is_empty() && *part != ".") {
        if part == ".." {
            return Err("has '..' in it".to_owned());
        }
        out.push('/');
        out.push_str(part);
    }
    if out.is_empty() {
        out.push('/');
    }
    Ok(out)
}
