//! Filters of system calls for units, made once for each content.

use crate::base::by_content::ByContent;
use std::sync::Arc;
use warren_sandbox::seccomp::{self, Arch, Filter, Instruction};
use warren_unit::config::{ExecConfig, Personality};

/// Contents that are kept; then all are made anew.
const KEPT_MAX: usize = 1024;

/// What stands for a content: the settings and their values.
type Content = Vec<(&'static str, Box<str>)>;

/// The programs of the units that were started, by what they forbid.
pub(crate) struct Filters {
    programs: ByContent<Content, Arc<[u8]>>,
}

impl Default for Filters {
    fn default() -> Filters {
        Filters { programs: ByContent::new(KEPT_MAX) }
    }
}

impl Filters {
    /// The program for what a unit forbids its processes to call, as bytes; empty if it forbids nothing.
    ///
    /// Fails if there can be no such program.
    pub(crate) fn program(&mut self, exec: &ExecConfig) -> Result<Arc<[u8]>, String> {
        let content = content(exec);
        if content.is_empty() {
            return Ok(Arc::default());
        }
        self.programs.get(content, |content| compile(exec, content).map(Into::into))
    }

    /// The program that allows these architectures alone; empty if all are.
    pub(crate) fn of_architectures(&mut self, stated: &str) -> Result<Arc<[u8]>, String> {
        if stated.is_empty() {
            return Ok(Arc::default());
        }
        let exec = ExecConfig::default();
        let content = vec![("SystemCallArchitectures", stated.into())];
        self.programs.get(content, |content| compile(&exec, content).map(Into::into))
    }
}

fn content(exec: &ExecConfig) -> Content {
    // Some of which no other part is applied have a filter too.
    let all = exec.protections.iter().chain(&exec.sandbox);
    let of_filters = all.filter(|asked| seccomp::settings::concerns(asked.setting));
    of_filters.map(|asked| (asked.setting, asked.value.clone())).collect()
}

fn compile(exec: &ExecConfig, content: &Content) -> Result<Vec<u8>, String> {
    const PER_LINUX32: u32 = 8;
    let native =
        Arch::native().ok_or("filters of system calls are not supported on this machine")?;
    let is_32_bit = matches!(
        exec.personality,
        Some(Personality::X86 | Personality::Ppc | Personality::PpcLe | Personality::S390)
    );
    let locked_personality = is_32_bit.then_some(PER_LINUX32);
    let mut filter = Filter::default();
    let mut problems = Vec::new();
    let locks = content.iter().any(|(setting, _)| *setting == "LockPersonality");
    filter.locked_personality = locked_personality.filter(|_| locks);
    for (setting, value) in content {
        filter.take(setting, value, native, &mut problems);
    }
    let program = seccomp::compile(&filter, native).map_err(|e| e.to_string())?;
    Ok(program.unwrap_or_default().iter().flat_map(bytes).collect())
}

/// `struct sock_filter` as the kernel reads it.
fn bytes(instruction: &Instruction) -> [u8; 8] {
    let Instruction { code, jt, jf, k } = *instruction;
    let (code, k) = (code.to_ne_bytes(), k.to_ne_bytes());
    [code[0], code[1], jt, jf, k[0], k[1], k[2], k[3]]
}

#[cfg(test)]
mod tests {
    use super::*;
    use warren_unit::config::SandboxSetting;

    fn exec(settings: &[(&'static str, &str)]) -> ExecConfig {
        let one = |&(setting, value): &(&'static str, &str)| SandboxSetting {
            setting,
            value: value.into(),
        };
        ExecConfig { protections: settings.iter().map(one).collect(), ..ExecConfig::default() }
    }

    #[test]
    fn units_that_forbid_the_same_share_a_program() {
        let mut filters = Filters::default();
        assert!(filters.program(&exec(&[])).expect("it is nothing").is_empty());
        let asked = [("SystemCallFilter", "@system-service"), ("LockPersonality", "yes")];
        let first = filters.program(&exec(&asked)).expect("it is small");
        assert!(!first.is_empty() && first.len() % 8 == 0);
        let second = filters.program(&exec(&asked)).expect("it is small");
        assert!(Arc::ptr_eq(&first, &second));
        let other = filters.program(&exec(&asked[..1])).expect("it is small");
        assert_ne!(first, other);
    }
}
