//! The environment of this process, for those that it starts.

/// Our environment, without these variables.
pub fn environment(without: &[&str]) -> Vec<String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| !without.contains(&name.as_str()))
        .map(|(name, value)| format!("{name}={value}"))
        .collect()
}
