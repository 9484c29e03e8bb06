//! \[Socket\] (systemd.socket(5)).

use std::time::Duration;

use super::Unit;
use crate::config::{
    BindIpv6Only, ExtendedAttribute, SocketConfig, SocketProtocol, Timestamping, TriggerLimit,
};
use crate::diagnostic::Code;
use crate::name::{UnitName, UnitType};
use crate::settings::{Id, id};
use crate::value::{self, Fault};

/// `NAME=VALUE`, of which the name is one that users may give (systemd.socket(5), "XAttrEntryPoint=").
fn extended_attribute(text: &str) -> Result<ExtendedAttribute, Fault> {
    let is_name = |name: &str| name.strip_prefix("user.").is_some_and(|own| !own.is_empty());
    let (name, value) =
        text.split_once('=').filter(|(name, _)| is_name(name)).ok_or_else(|| {
            Fault::new(0, format!("'{text}' is not an attribute and its value, such as 'user.a=b'"))
        })?;
    Ok(ExtendedAttribute { name: name.into(), value: value.into() })
}

/// The kernel's words for IPTOS= (ip(7)).
const IP_TOS: [(&str, u8); 4] =
    [("low-delay", 0x10), ("throughput", 0x08), ("reliability", 0x04), ("low-cost", 0x02)];

impl Unit<'_> {
    pub(super) fn socket(&self) -> SocketConfig {
        let merged = &self.merged;
        let flag = |id: Id| merged.flag(id, false);
        let count = |id: Id| self.number::<u32>(id, 0, u32::MAX.into());
        let mode = |id: Id, default| merged.value(id, value::mode).unwrap_or(default);
        // 0 is no bound of its own, as with systemd 252, which was asked.
        let unless_none = |id: Id| self.number(id, 0, i64::MAX).filter(|&number| number > 0);
        let size = |id: Id| merged.value(id, value::bytes);
        let accept = flag(id!(Socket "Accept"));
        SocketConfig {
            listen: merged.listens(),
            protocol: merged.word(id!(Socket "SocketProtocol"), SocketProtocol::from_word),
            bind_ipv6_only: self.bind_ipv6_only(),
            backlog: count(id!(Socket "Backlog")).unwrap_or(u32::MAX),
            bind_to_device: self.owned(id!(Socket "BindToDevice")),
            socket_user: self.merged.value(id!(Socket "SocketUser"), value::user),
            socket_group: self.merged.value(id!(Socket "SocketGroup"), value::user),
            socket_mode: mode(id!(Socket "SocketMode"), 0o666),
            directory_mode: mode(id!(Socket "DirectoryMode"), 0o755),
            accept,
            writable: flag(id!(Socket "Writable")),
            flush_pending: flag(id!(Socket "FlushPending")),
            max_connections: count(id!(Socket "MaxConnections")).unwrap_or(64),
            max_connections_per_source: count(id!(Socket "MaxConnectionsPerSource"))
                .filter(|&number| number > 0),
            keep_alive: flag(id!(Socket "KeepAlive")),
            keep_alive_time: self.timeout(id!(Socket "KeepAliveTimeSec"), false).flatten(),
            keep_alive_interval: self.timeout(id!(Socket "KeepAliveIntervalSec"), false).flatten(),
            keep_alive_probes: count(id!(Socket "KeepAliveProbes")),
            no_delay: flag(id!(Socket "NoDelay")),
            priority: self.number(id!(Socket "Priority"), i32::MIN.into(), i32::MAX.into()),
            defer_accept: self.timeout(id!(Socket "DeferAcceptSec"), true).flatten(),
            receive_buffer: size(id!(Socket "ReceiveBuffer")),
            send_buffer: size(id!(Socket "SendBuffer")),
            ip_tos: merged.value(id!(Socket "IPTOS"), ip_tos),
            ip_ttl: self.number(id!(Socket "IPTTL"), 0, 255),
            mark: count(id!(Socket "Mark")),
            reuse_port: flag(id!(Socket "ReusePort")),
            pipe_size: size(id!(Socket "PipeSize")),
            message_queue_max_messages: unless_none(id!(Socket "MessageQueueMaxMessages")),
            message_queue_message_size: unless_none(id!(Socket "MessageQueueMessageSize")),
            free_bind: flag(id!(Socket "FreeBind")),
            transparent: flag(id!(Socket "Transparent")),
            broadcast: flag(id!(Socket "Broadcast")),
            pass_credentials: flag(id!(Socket "PassCredentials")),
            pass_security: flag(id!(Socket "PassSecurity")),
            pass_pidfd: flag(id!(Socket "PassPIDFD")),
            xattr_entry_point: self.extended_attributes(id!(Socket "XAttrEntryPoint")),
            xattr_listen: self.extended_attributes(id!(Socket "XAttrListen")),
            xattr_accept: self.extended_attributes(id!(Socket "XAttrAccept")),
            refuse_fds: !merged.flag(id!(Socket "AcceptFileDescriptors"), true),
            pass_packet_info: flag(id!(Socket "PassPacketInfo")),
            timestamping: self.timestamping(),
            tcp_congestion: self.owned(id!(Socket "TCPCongestion")),
            exec_start_pre: self.commands(id!(Socket "ExecStartPre")),
            exec_start_post: self.commands(id!(Socket "ExecStartPost")),
            exec_stop_pre: self.commands(id!(Socket "ExecStopPre")),
            exec_stop_post: self.commands(id!(Socket "ExecStopPost")),
            timeout: self
                .timeout(id!(Socket "TimeoutSec"), true)
                .unwrap_or(self.defaults.timeout_start),
            service: self.socket_service(accept),
            remove_on_stop: flag(id!(Socket "RemoveOnStop")),
            symlinks: merged.plain_words(id!(Socket "Symlinks")),
            fd_name: self.fd_name(),
            trigger_limit: self.trigger_limit(accept),
            poll_limit: self.poll_limit(accept),
            pass_fds_to_exec: flag(id!(Socket "PassFileDescriptorsToExec")),
            exec: Box::new(self.exec_of_listener()),
            kill: self.kill(),
            cgroup: Box::new(self.cgroup()),
        }
    }

    fn extended_attributes(&self, id: Id) -> Vec<ExtendedAttribute> {
        let mut all = Vec::new();
        for entry in self.merged.list(id) {
            let Some(text) = self.merged.expand(entry) else { continue };
            match extended_attribute(&text) {
                Ok(attribute) => all.push(attribute),
                Err(fault) => self.merged.fault(entry, Code::BadValue, &fault),
            }
        }
        all
    }

    pub(super) fn trigger_limit(&self, accept: bool) -> TriggerLimit {
        let interval = self.merged.value(id!(Socket "TriggerLimitIntervalSec"), value::span);
        let burst = self.number(id!(Socket "TriggerLimitBurst"), 0, u32::MAX.into());
        let burst_default = if accept { 200 } else { 20 };
        TriggerLimit {
            interval: interval.map_or(Duration::from_secs(2), |s| s.unwrap_or(Duration::MAX)),
            burst: burst.unwrap_or(burst_default),
        }
    }

    /// Where a file says nothing of it there is no limit, as with systemd 252; what it leaves open is as the manual of
    /// later versions says.
    fn poll_limit(&self, accept: bool) -> Option<TriggerLimit> {
        let interval = self.merged.value(id!(Socket "PollLimitIntervalSec"), value::span);
        let burst = self.number(id!(Socket "PollLimitBurst"), 0, u32::MAX.into());
        if interval.is_none() && burst.is_none() {
            return None;
        }
        let limit = TriggerLimit {
            interval: interval.map_or(Duration::from_secs(2), |s| s.unwrap_or(Duration::MAX)),
            burst: burst.unwrap_or(if accept { 150 } else { 15 }),
        };
        Some(limit).filter(|limit| !limit.interval.is_zero() && limit.burst > 0)
    }

    fn bind_ipv6_only(&self) -> BindIpv6Only {
        let from_word = |text: &str| match value::boolean(text) {
            Ok(true) => Some(BindIpv6Only::Ipv6Only),
            Ok(false) => Some(BindIpv6Only::Both),
            Err(_) => BindIpv6Only::from_word(text),
        };
        let written = self.merged.word(id!(Socket "BindIPv6Only"), from_word);
        written.unwrap_or(BindIpv6Only::Default)
    }

    fn timestamping(&self) -> Timestamping {
        let from_word = |text: &str| match text {
            "us" | "usec" | "µs" | "μs" => Some(Timestamping::Us),
            "ns" | "nsec" => Some(Timestamping::Ns),
            "off" => Some(Timestamping::Off),
            text => value::boolean(text).ok().filter(|on| !on).map(|_| Timestamping::Off),
        };
        let written = self.merged.word(id!(Socket "Timestamping"), from_word);
        written.unwrap_or(Timestamping::Off)
    }

    /// Service=, or the service of the same name; with Accept=yes its template.
    fn socket_service(&self, accept: bool) -> Option<UnitName> {
        let name = self.merged.name();
        if accept {
            return UnitName::parse(&format!("{}@.service", name.prefix())).ok();
        }
        let written = self.merged.value(id!(Socket "Service"), |text| {
            let name = UnitName::parse(text).map_err(|e| Fault::new(0, e.to_string()))?;
            match name.unit_type() == UnitType::Service && !name.is_template() {
                true => Ok(name),
                false => Err(Fault::new(0, format!("'{name}' is not a service"))),
            }
        });
        written.or_else(|| name.change_type(UnitType::Service).ok())
    }

    fn fd_name(&self) -> Option<Box<str>> {
        self.merged.value(id!(Socket "FileDescriptorName"), |text| match value::is_descriptor_name(
            text,
        ) {
            true => Ok(text.into()),
            false => {
                Err(Fault::new(0, format!("'{text}' is not a valid name of a file descriptor")))
            }
        })
    }
}

fn ip_tos(text: &str) -> Result<u8, Fault> {
    match IP_TOS.iter().find(|(word, _)| *word == text) {
        Some((_, tos)) => Ok(*tos),
        None => value::number(text, 0, 255).map(|n| n as u8),
    }
}
