//! org.freedesktop.systemd1.Socket, without the groups that it shares with other types.

use super::commands::commands;
use super::property::properties;
use super::values::*;
use crate::wire::Writer;
use warren_core::model::process::CommandList;
use warren_unit::config::ExtendedAttribute;

properties! {
    /// The table of the interface.
    SOCKET:
    BindIPv6Only "s" Const => |s, w| w.str(s.socket().bind_ipv6_only.as_str());
    Backlog "u" Const => |s, w| w.u32(s.socket().backlog.min(i32::MAX.unsigned_abs()));
    TimeoutUSec "t" Const => |s, w| w.u64(usec(s.socket().timeout));
    BindToDevice "s" Const => |s, w| w.str(text(&s.socket().bind_to_device));
    SocketUser "s" Const => |s, w| w.str(text(&s.socket().socket_user));
    SocketGroup "s" Const => |s, w| w.str(text(&s.socket().socket_group));
    SocketMode "u" Const => |s, w| w.u32(s.socket().socket_mode);
    DirectoryMode "u" Const => |s, w| w.u32(s.socket().directory_mode);
    Accept "b" Const => |s, w| w.bool(s.socket().accept);
    FlushPending "b" Const => |s, w| w.bool(s.socket().flush_pending);
    Writable "b" Const => |s, w| w.bool(s.socket().writable);
    KeepAlive "b" Const => |s, w| w.bool(s.socket().keep_alive);
    KeepAliveTimeUSec "t" Const => |s, w| w.u64(s.socket().keep_alive_time.map_or(0, micros));
    KeepAliveIntervalUSec "t" Const => |s, w| w.u64(s.socket().keep_alive_interval.map_or(0, micros));
    KeepAliveProbes "u" Const => |s, w| w.u32(s.socket().keep_alive_probes.unwrap_or(0));
    DeferAcceptUSec "t" Const => |s, w| w.u64(s.socket().defer_accept.map_or(0, micros));
    NoDelay "b" Const => |s, w| w.bool(s.socket().no_delay);
    Priority "i" Const => |s, w| w.i32(s.socket().priority.unwrap_or(-1));
    ReceiveBuffer "t" Const => |s, w| w.u64(s.socket().receive_buffer.unwrap_or(0));
    SendBuffer "t" Const => |s, w| w.u64(s.socket().send_buffer.unwrap_or(0));
    IPTOS "i" Const => |s, w| w.i32(s.socket().ip_tos.map_or(-1, i32::from));
    IPTTL "i" Const => |s, w| w.i32(s.socket().ip_ttl.map_or(-1, i32::from));
    PipeSize "t" Const => |s, w| w.u64(s.socket().pipe_size.unwrap_or(0));
    FreeBind "b" Const => |s, w| w.bool(s.socket().free_bind);
    Transparent "b" Const => |s, w| w.bool(s.socket().transparent);
    Broadcast "b" Const => |s, w| w.bool(s.socket().broadcast);
    PassCredentials "b" Const => |s, w| w.bool(s.socket().pass_credentials);
    PassSecurity "b" Const => |s, w| w.bool(s.socket().pass_security);
    PassPacketInfo "b" Const => |s, w| w.bool(s.socket().pass_packet_info);
    Timestamping "s" Const => |s, w| w.str(s.socket().timestamping.as_str());
    RemoveOnStop "b" Const => |s, w| w.bool(s.socket().remove_on_stop);
    Listen "a(ss)" Const => |s, w| listen(w, &s.socket().listen);
    Symlinks "as" Const => |s, w| w.strs(s.socket().symlinks.iter().map(|path| &**path));
    Mark "i" Const => |s, w| w.i32(s.socket().mark.map_or(-1, u32::cast_signed));
    MaxConnections "u" Const => |s, w| w.u32(s.socket().max_connections);
    MaxConnectionsPerSource "u" Const => |s, w| w.u32(s.socket().max_connections_per_source.unwrap_or(0));
    MessageQueueMaxMessages "x" Const => |s, w| w.i64(s.socket().message_queue_max_messages.map_or(0, u64::cast_signed));
    MessageQueueMessageSize "x" Const => |s, w| w.i64(s.socket().message_queue_message_size.map_or(0, u64::cast_signed));
    TCPCongestion "s" Const => |s, w| w.str(text(&s.socket().tcp_congestion));
    ReusePort "b" Const => |s, w| w.bool(s.socket().reuse_port);
    SmackLabel "s" Const = "\"\"";
    SmackLabelIPIn "s" Const = "\"\"";
    SmackLabelIPOut "s" Const = "\"\"";
    ControlPID "u" Value => |s, w| w.u32(s.run().control_pid().unwrap_or(0));
    Result "s" Value => |s, w| w.str(s.outcome().as_str());
    NConnections "u" Never => |s, w| w.u32(s.socket_run().map_or(0, |run| count(run.connections.len())));
    NAccepted "u" Never => |s, w| w.u32(s.history().map_or(0, |h| saturate(h.accepted)));
    NRefused "u" Never => |s, w| w.u32(s.history().map_or(0, |h| saturate(h.refused)));
    FileDescriptorName "s" Never => |s, w| w.str(s.socket().fd_name.as_deref().unwrap_or(s.name()));
    SocketProtocol "i" Const => |s, w| w.i32(protocol(s.socket().protocol));
    TriggerLimitIntervalUSec "t" Const => |s, w| w.u64(micros(s.socket().trigger_limit.interval));
    TriggerLimitBurst "u" Const => |s, w| w.u32(s.socket().trigger_limit.burst);
    PollLimitIntervalUSec "t" Const => |s, w| w.u64(s.socket().poll_limit.map_or(0, |limit| micros(limit.interval)));
    PollLimitBurst "u" Const => |s, w| w.u32(s.socket().poll_limit.map_or(0, |limit| limit.burst));
    PassFileDescriptorsToExec "b" Const => |s, w| w.bool(s.socket().pass_fds_to_exec);
    XAttrEntryPoint "a(ss)" Const => |s, w| attributes(w, &s.socket().xattr_entry_point);
    XAttrListen "a(ss)" Const => |s, w| attributes(w, &s.socket().xattr_listen);
    XAttrAccept "a(ss)" Const => |s, w| attributes(w, &s.socket().xattr_accept);
    UID "u" Value => |s, w| w.u32(s.identity().0);
    GID "u" Value => |s, w| w.u32(s.identity().1);
    ExecStartPre "a(sasbttttuii)" Invalidates => |s, w| commands(w, s, CommandList::StartPre, &s.socket().exec_start_pre);
    ExecStartPost "a(sasbttttuii)" Invalidates => |s, w| commands(w, s, CommandList::StartPost, &s.socket().exec_start_post);
    ExecStopPre "a(sasbttttuii)" Invalidates => |s, w| commands(w, s, CommandList::Stop, &s.socket().exec_stop_pre);
    ExecStopPost "a(sasbttttuii)" Invalidates => |s, w| commands(w, s, CommandList::StopPost, &s.socket().exec_stop_post);
}

/// Extended attributes by name and value.
fn attributes<'w>(w: &'w mut Writer, attributes: &[ExtendedAttribute]) -> &'w mut Writer {
    w.array(b'(', |w| {
        for attribute in attributes {
            w.structure().str(&attribute.name).str(&attribute.value);
        }
    })
}
