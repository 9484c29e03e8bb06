//! What this machine runs in: which container, or which virtual machine. The words are those of
//! systemd-detect-virt(1).

use std::path::Path;

/// Containers that have a name of their own (systemd-detect-virt(1)).
const CONTAINERS: [&str; 10] = [
    "openvz",
    "lxc",
    "lxc-libvirt",
    "systemd-nspawn",
    "docker",
    "podman",
    "rkt",
    "wsl",
    "proot",
    "pouch",
];

/// What any other container is called.
const OTHER_CONTAINER: &str = "container-other";

/// What a virtual machine is called that says nothing of its kind.
const OTHER_MACHINE: &str = "vm-other";

/// Fields of SMBIOS that makers of virtual machines fill in, below [`DMI`].
const DMI_FIELDS: [&str; 5] =
    ["product_name", "sys_vendor", "board_vendor", "bios_vendor", "product_version"];

/// Where the kernel shows them.
const DMI: &str = "/sys/class/dmi/id";

/// What they begin with. QEMU's are last: others that are made of it have theirs beside.
const MAKERS: [(&str, &str); 18] = [
    ("Amazon EC2", "amazon"),
    ("Google Compute Engine", "google"),
    ("VMware", "vmware"),
    ("VMW", "vmware"),
    ("innotek GmbH", "oracle"),
    ("VirtualBox", "oracle"),
    ("Oracle Corporation", "oracle"),
    ("Xen", "xen"),
    ("Bochs", "bochs"),
    ("Parallels", "parallels"),
    ("BHYVE", "bhyve"),
    ("Apple Virtualization", "apple"),
    ("Hyper-V", "microsoft"),
    ("Virtual Machine", "microsoft"),
    ("KVM", "kvm"),
    ("OpenStack", "kvm"),
    ("KubeVirt", "kvm"),
    ("QEMU", "qemu"),
];

/// Signatures of hypervisors in CPUID leaf 0x40000000, EBX, ECX, EDX (the kernel's Documentation/virt).
const SIGNATURES: [(&[u8; 12], &str); 11] = [
    (b"KVMKVMKVM\0\0\0", "kvm"),
    (b"TCGTCGTCGTCG", "qemu"),
    (b"VMwareVMware", "vmware"),
    (b"Microsoft Hv", "microsoft"),
    (b"VBoxVBoxVBox", "oracle"),
    (b"XenVMMXenVMM", "xen"),
    (b"bhyve bhyve ", "bhyve"),
    (b"ACRNACRNACRN", "acrn"),
    (b"QNXQVMBSQG\0\0", "qnx"),
    (b"SRESRESRESRE", "sre"),
    (b" lrpepyh  vr", "parallels"),
];

/// What tells of a virtual machine.
#[derive(Clone, Default, Debug)]
struct Signs {
    /// Contents of [`DMI_FIELDS`].
    dmi: Vec<String>,
    /// Of [`SIGNATURES`], where the processor says that there is a hypervisor.
    signature: Option<[u8; 12]>,
    /// Whether it says so; none where processors do not tell.
    has_hypervisor: Option<bool>,
    /// `/proc/cpuinfo` is User-mode Linux's.
    is_user_mode: bool,
    /// `/sys/hypervisor/type`
    hypervisor_type: String,
    /// `/proc/xen/capabilities`
    xen_capabilities: String,
    /// `/proc/device-tree/hypervisor/compatible`
    device_tree: String,
    /// `/proc/device-tree/ibm,partition-name` is there.
    is_ibm_partition: bool,
    /// `/proc/sysinfo` of s390
    sysinfo: String,
}

/// The kind of the virtual machine that this kernel runs in; none on bare metal, and in Xen's dom0.
pub fn machine() -> Option<&'static str> {
    kind(&Signs::look())
}

/// The kind of the container that this process runs in; none outside of containers.
pub fn container() -> Option<&'static str> {
    if !crate::process::in_container() {
        return None;
    }
    let own = std::env::var("container").ok();
    let told = own.or_else(told_to_process_one);
    Some(container_kind(told.as_deref(), |mark| Path::new(mark).exists()))
}

/// The kind of a container that was told this, and in which these marks are.
fn container_kind(told: Option<&str>, has: impl Fn(&str) -> bool) -> &'static str {
    const MARKS: [(&str, &str); 2] = [("/run/.containerenv", "podman"), ("/.dockerenv", "docker")];
    let known = told.and_then(|told| CONTAINERS.into_iter().find(|kind| *kind == told));
    let marked = || MARKS.into_iter().find(|(mark, _)| has(mark)).map(|(_, kind)| kind);
    known.or_else(marked).unwrap_or(OTHER_CONTAINER)
}

/// `container=` in the environment of process 1, the convention of container managers.
fn told_to_process_one() -> Option<String> {
    let environment = std::fs::read("/proc/1/environ").ok()?;
    let mut variables = environment.split(|&b| b == 0);
    let kind = variables.find_map(|variable| variable.strip_prefix(b"container="))?;
    Some(String::from_utf8_lossy(kind).into_owned())
}

impl Signs {
    fn look() -> Signs {
        let text = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let cpuinfo = text("/proc/cpuinfo");
        let has_hypervisor = has_hypervisor(&cpuinfo);
        Signs {
            dmi: DMI_FIELDS.iter().map(|field| text(&format!("{DMI}/{field}"))).collect(),
            signature: (has_hypervisor == Some(true)).then(signature).flatten(),
            has_hypervisor,
            is_user_mode: cpuinfo.contains("User Mode Linux"),
            hypervisor_type: text("/sys/hypervisor/type"),
            xen_capabilities: text("/proc/xen/capabilities"),
            device_tree: text("/proc/device-tree/hypervisor/compatible"),
            is_ibm_partition: Path::new("/proc/device-tree/ibm,partition-name").exists(),
            sysinfo: text("/proc/sysinfo"),
        }
    }
}

/// The flag `hypervisor` of x86; other processors have no flags.
fn has_hypervisor(cpuinfo: &str) -> Option<bool> {
    let flags = cpuinfo.lines().find_map(|line| line.strip_prefix("flags")?.split_once(':'))?.1;
    Some(flags.split_whitespace().any(|flag| flag == "hypervisor"))
}

fn kind(signs: &Signs) -> Option<&'static str> {
    if signs.is_user_mode {
        return Some("uml");
    }
    if signs.xen_capabilities.contains("control_d") {
        return None;
    }
    if signs.hypervisor_type.trim() == "xen" {
        return Some("xen");
    }
    by_maker(signs)
        .or_else(|| by_signature(signs))
        .or_else(|| by_firmware(signs))
        .or_else(|| (signs.has_hypervisor == Some(true)).then_some(OTHER_MACHINE))
}

/// QEMU's name stands for its software virtualization, unless the processor says that KVM is below.
fn by_maker(signs: &Signs) -> Option<&'static str> {
    // Some makers put their name on machines of metal too.
    let is_metal = signs.dmi.iter().any(|field| field.trim_end().ends_with(".metal"));
    if signs.has_hypervisor == Some(false) || is_metal {
        return None;
    }
    let has = |maker: &str| signs.dmi.iter().any(|field| field.starts_with(maker));
    let (_, kind) = MAKERS.into_iter().find(|(maker, _)| has(maker))?;
    let signature = by_signature(signs).filter(|_| matches!(kind, "kvm" | "qemu"));
    Some(signature.unwrap_or(kind))
}

fn by_signature(signs: &Signs) -> Option<&'static str> {
    let told = signs.signature?;
    SIGNATURES.into_iter().find(|(signature, _)| **signature == told).map(|(_, kind)| kind)
}

fn by_firmware(signs: &Signs) -> Option<&'static str> {
    let (tree, sysinfo) = (&signs.device_tree, &signs.sysinfo);
    match () {
        () if tree.contains("linux,kvm") => Some("kvm"),
        () if tree.contains("xen") => Some("xen"),
        () if tree.contains("vmware") => Some("vmware"),
        () if signs.is_ibm_partition => Some("powervm"),
        () if sysinfo.contains("z/VM") => Some("zvm"),
        () if sysinfo.contains("KVM/Linux") => Some("kvm"),
        () => None,
    }
}

#[cfg(target_arch = "x86_64")]
fn signature() -> Option<[u8; 12]> {
    const HYPERVISOR: u32 = 0x4000_0000;
    let told = core::arch::x86_64::__cpuid(HYPERVISOR);
    let mut out = [0; 12];
    for (bytes, word) in out.chunks_exact_mut(4).zip([told.ebx, told.ecx, told.edx]) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    Some(out)
}

#[cfg(not(target_arch = "x86_64"))]
fn signature() -> Option<[u8; 12]> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_x86(dmi: &[&str], signature: &[u8; 12]) -> Signs {
        let dmi = dmi.iter().map(|field| format!("{field}\n")).collect();
        Signs { dmi, signature: Some(*signature), has_hypervisor: Some(true), ..Signs::default() }
    }

    #[test]
    fn a_virtual_machine_is_known_by_its_maker_and_by_its_processor() {
        let kvm = b"KVMKVMKVM\0\0\0";
        for (dmi, signature, expect) in [
            (&["Standard PC (Q35 + ICH9, 2009)", "QEMU"][..], kvm, "kvm"),
            (&["Standard PC (Q35 + ICH9, 2009)", "QEMU"], b"TCGTCGTCGTCG", "qemu"),
            (&["OpenStack Nova", "OpenStack Foundation"], kvm, "kvm"),
            (&["m5.large", "Amazon EC2"], kvm, "amazon"),
            (&["VirtualBox", "innotek GmbH"], kvm, "oracle"),
            (&["Google Compute Engine", "Google"], kvm, "google"),
            (&["VMware Virtual Platform", "VMware, Inc."], b"VMwareVMware", "vmware"),
            (&["Virtual Machine", "Microsoft Corporation"], b"Microsoft Hv", "microsoft"),
            (&["HVM domU", "Xen"], b"XenVMMXenVMM", "xen"),
            (&[], b"Microsoft Hv", "microsoft"),
            (&[], kvm, "kvm"),
            (&["Something"], b"nobody knows", "vm-other"),
        ] {
            assert_eq!(kind(&of_x86(dmi, signature)), Some(expect), "{dmi:?}");
        }
    }

    #[test]
    fn a_container_is_of_a_kind_that_has_a_name_or_another() {
        let podman = |mark: &str| mark == "/run/.containerenv";
        assert_eq!(container_kind(Some("lxc"), podman), "lxc");
        assert_eq!(container_kind(Some("oci"), podman), "podman");
        assert_eq!(container_kind(None, podman), "podman");
        assert_eq!(container_kind(Some("lab"), |_| false), "container-other");
        assert_eq!(container_kind(Some(""), |_| false), "container-other");
    }

    #[test]
    fn metal_is_no_virtual_machine_whoever_sells_it() {
        let metal = Signs {
            dmi: vec!["i3.metal".to_owned(), "Amazon EC2".to_owned()],
            has_hypervisor: Some(false),
            ..Signs::default()
        };
        assert_eq!(kind(&metal), None);
        assert_eq!(kind(&Signs { has_hypervisor: None, ..metal.clone() }), None, "of arm64");
        let arm = Signs {
            dmi: vec!["m6g.large".to_owned(), "Amazon EC2".to_owned()],
            ..Signs::default()
        };
        assert_eq!(kind(&arm), Some("amazon"));
        assert_eq!(kind(&Signs::default()), None);
    }

    #[test]
    fn what_has_no_smbios_is_known_by_what_the_kernel_tells() {
        let check = |change: &dyn Fn(&mut Signs), expect| {
            let mut signs = Signs::default();
            change(&mut signs);
            assert_eq!(kind(&signs), expect, "{signs:?}");
        };
        check(&|s| s.is_user_mode = true, Some("uml"));
        check(&|s| s.hypervisor_type = "xen\n".to_owned(), Some("xen"));
        check(&|s| s.device_tree = "linux,kvm\0".to_owned(), Some("kvm"));
        check(&|s| s.is_ibm_partition = true, Some("powervm"));
        check(&|s| s.sysinfo = "VM00 Control Program: z/VM    7.2.0".to_owned(), Some("zvm"));
        let dom0 = |s: &mut Signs| {
            s.hypervisor_type = "xen\n".to_owned();
            s.xen_capabilities = "control_d\n".to_owned();
        };
        check(&dom0, None);
    }

    #[test]
    fn the_processor_tells_by_a_flag() {
        assert_eq!(has_hypervisor("flags\t\t: fpu hypervisor lm\n"), Some(true));
        assert_eq!(has_hypervisor("processor\t: 0\nflags\t\t: fpu lm\n"), Some(false));
        assert_eq!(has_hypervisor("Features\t: fp asimd\n"), None);
    }
}
