//! The steps between a request to spawn and the new program, and their exit codes.

use serde::{Deserialize, Serialize};

/// Declares [`ExecStep`] with the table of systemd.exec(5), "Process Exit Codes".
macro_rules! steps {
    ($($step:ident = $code:literal, $name:literal, $doc:literal;)*) => {
        /// The step of a spawn that failed. Its exit code is what a process that got as far as
        /// being made ends with; systemd.exec(5), "Process Exit Codes".
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        #[repr(u8)]
        pub enum ExecStep {
            $(#[doc = $doc] $step = $code,)*
        }

        impl ExecStep {
            /// All steps, by exit code.
            pub const ALL: &[ExecStep] = &[$(ExecStep::$step,)*];

            /// The name systemd.exec(5) gives it, without `EXIT_`.
            pub fn name(self) -> &'static str {
                match self { $(ExecStep::$step => $name,)* }
            }
        }
    };
}

steps! {
    Request = 2, "INVALIDARGUMENT", "The request itself: malformed, or with too few fds.";
    Feature = 3, "NOTIMPLEMENTED", "It asks for something that this helper does not know.";
    Chdir = 200, "CHDIR", "Changing to the working directory.";
    Nice = 201, "NICE", "Setting the scheduling priority.";
    Fds = 202, "FDS", "Installing the file descriptors to be passed.";
    Exec = 203, "EXEC", "execve(2) of the program.";
    Memory = 204, "MEMORY", "Allocating memory.";
    Limits = 205, "LIMITS", "Setting resource limits.";
    OomAdjust = 206, "OOM_ADJUST", "Setting the OOM score adjustment.";
    SignalMask = 207, "SIGNAL_MASK", "Setting the signal mask and dispositions.";
    Stdin = 208, "STDIN", "Setting up standard input.";
    Stdout = 209, "STDOUT", "Setting up standard output.";
    Chroot = 210, "CHROOT", "Changing the root directory.";
    IoPrio = 211, "IOPRIO", "Setting the I/O scheduling priority.";
    TimerSlack = 212, "TIMERSLACK", "Setting the timer slack.";
    SecureBits = 213, "SECUREBITS", "Setting the secure bits.";
    SetScheduler = 214, "SETSCHEDULER", "Setting the CPU scheduling policy.";
    CpuAffinity = 215, "CPUAFFINITY", "Setting the CPU affinity.";
    Group = 216, "GROUP", "Determining or changing the group credentials.";
    User = 217, "USER", "Determining or changing the user credentials.";
    Capabilities = 218, "CAPABILITIES", "Dropping or raising capabilities.";
    Cgroup = 219, "CGROUP", "Entering the control group, or making the process.";
    Setsid = 220, "SETSID", "Making a new session.";
    Confirm = 221, "CONFIRM", "Cancelled by the user.";
    Stderr = 222, "STDERR", "Setting up standard error.";
    Pam = 224, "PAM", "Opening a session of PAM.";
    Network = 225, "NETWORK", "Setting up the network namespace.";
    Namespace = 226, "NAMESPACE", "Setting up namespaces.";
    NoNewPrivileges = 227, "NO_NEW_PRIVILEGES", "Setting no_new_privs.";
    SystemCallFilter = 228, "SECCOMP", "Attaching the filter of system calls.";
    SelinuxContext = 229, "SELINUX_CONTEXT", "Setting the SELinux context.";
    Personality = 230, "PERSONALITY", "Setting the execution domain.";
    ApparmorProfile = 231, "APPARMOR_PROFILE", "Changing to the AppArmor profile.";
    RuntimeDirectory = 233, "RUNTIME_DIRECTORY", "Making the runtime directories.";
    Chown = 235, "CHOWN", "Changing the owner of a socket or directory.";
    SmackLabel = 236, "SMACK_PROCESS_LABEL", "Setting the SMACK label.";
    Keyring = 237, "KEYRING", "Setting up the kernel keyring.";
    StateDirectory = 238, "STATE_DIRECTORY", "Making the state directories.";
    CacheDirectory = 239, "CACHE_DIRECTORY", "Making the cache directories.";
    LogsDirectory = 240, "LOGS_DIRECTORY", "Making the logs directories.";
    ConfigurationDirectory = 241, "CONFIGURATION_DIRECTORY", "Making the configuration directories.";
    NumaPolicy = 242, "NUMA_POLICY", "Setting the NUMA memory policy.";
    Credentials = 243, "CREDENTIALS", "Reading the credentials.";
    Bpf = 245, "BPF", "Getting ready for the program that restricts file systems.";
}

impl ExecStep {
    /// The exit code that stands for this step.
    pub fn exit_code(self) -> i32 {
        self as u8 as i32
    }
}
