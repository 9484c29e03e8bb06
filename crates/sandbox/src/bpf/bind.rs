//! Which ports a unit may bind sockets to (systemd.resource-control(5), "SocketBindAllow=").

use super::instruction::{
    CONTEXT, Instruction, R, answer, copy, from_network_16, load, skip_if_above, skip_if_below,
    skip_unless, to_end,
};
use super::{ALLOW, DENY};

/// Most rules of each list (systemd.resource-control(5)).
pub const RULES_MAX: usize = 128;

/// Sockets that are bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule {
    /// Their family; none for both.
    pub family: Option<Family>,
    /// Their protocol; none for all.
    pub protocol: Option<Protocol>,
    /// The first and the last port; none for all.
    pub ports: Option<(u16, u16)>,
}

/// A family of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// IPv4.
    Ip4 = 2,
    /// IPv6.
    Ip6 = 10,
}

/// A protocol, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// TCP.
    Tcp = 6,
    /// UDP.
    Udp = 17,
}

impl Rule {
    /// The rule that a word stands for; none if it stands for none.
    pub fn parse(word: &str) -> Option<Rule> {
        if word == "any" {
            return Some(Rule::default());
        }
        let mut rule = Rule::default();
        let mut parts = word.split(':').peekable();
        rule.family = match parts.peek() {
            Some(&"ipv4") => Some(Family::Ip4),
            Some(&"ipv6") => Some(Family::Ip6),
            _ => None,
        };
        parts.next_if(|_| rule.family.is_some());
        rule.protocol = match parts.peek() {
            Some(&"tcp") => Some(Protocol::Tcp),
            Some(&"udp") => Some(Protocol::Udp),
            _ => None,
        };
        parts.next_if(|_| rule.protocol.is_some());
        rule.ports = match parts.next() {
            None => None,
            Some(ports) => Some(range(ports)?),
        };
        let is_whole = parts.next().is_none();
        is_whole.then_some(rule)
    }
}

fn range(text: &str) -> Option<(u16, u16)> {
    let number = |text: &str| {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|port| is_number && *port > 0)
    };
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    let (low, high) = (number(low)?, number(high)?);
    (low <= high).then_some((low, high))
}

impl std::fmt::Display for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let family = self.family.map(|family| match family {
            Family::Ip4 => "ipv4".to_owned(),
            Family::Ip6 => "ipv6".to_owned(),
        });
        let protocol = self.protocol.map(|protocol| match protocol {
            Protocol::Tcp => "tcp".to_owned(),
            Protocol::Udp => "udp".to_owned(),
        });
        let ports = self.ports.map(|(low, high)| match low == high {
            true => low.to_string(),
            false => format!("{low}-{high}"),
        });
        let parts: Vec<String> = [family, protocol, ports].into_iter().flatten().collect();
        f.write_str(if parts.is_empty() { "any".to_owned() } else { parts.join(":") }.as_str())
    }
}

/// What may be bound, and what of the rest may not.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rules {
    /// SocketBindAllow=
    pub allow: Vec<Rule>,
    /// SocketBindDeny=
    pub deny: Vec<Rule>,
}

/// `struct bpf_sock_addr`
const PORT_AT: i16 = 24;
const PROTOCOL_AT: i16 = 36;

const PORT: R = R(6);
const PROTOCOL: R = R(7);
const SOCKET: R = R(8);

/// The program for sockets of one family. A port that the kernel chooses is none of a rule that names ports.
pub fn program(rules: &Rules, family: Family) -> Vec<Instruction> {
    let mut out = vec![
        copy(SOCKET, CONTEXT),
        load(PORT, SOCKET, PORT_AT),
        from_network_16(PORT),
        load(PROTOCOL, SOCKET, PROTOCOL_AT),
    ];
    for (list, result) in [(&rules.allow, ALLOW), (&rules.deny, DENY)] {
        for rule in list.iter().filter(|rule| rule.family.is_none_or(|of| of == family)) {
            out.extend(block(rule, result));
            if rule.protocol.is_none() && rule.ports.is_none() {
                // The kernel takes no instructions that are never reached.
                return out;
            }
        }
    }
    out.extend(answer(ALLOW));
    out
}

fn block(rule: &Rule, result: i32) -> Vec<Instruction> {
    let conditions = usize::from(rule.protocol.is_some()) + 2 * usize::from(rule.ports.is_some());
    let all = conditions + answer(result).len();
    let mut out = Vec::with_capacity(all);
    if let Some(protocol) = rule.protocol {
        out.push(skip_unless(PROTOCOL, protocol as i32, to_end(out.len(), all)));
    }
    if let Some((low, high)) = rule.ports {
        out.push(skip_if_below(PORT, i32::from(low), to_end(out.len(), all)));
        out.push(skip_if_above(PORT, i32::from(high), to_end(out.len(), all)));
    }
    out.extend(answer(result));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_as_the_manual_has_them() {
        for word in
            ["any", "ipv4", "ipv6:tcp", "tcp", "udp:53", "1234", "ipv6:10000-65535", "ipv4:udp:1-2"]
        {
            assert_eq!(Rule::parse(word).map(|rule| rule.to_string()).as_deref(), Some(word));
        }
        assert_eq!(Rule::parse("7-7").map(|rule| rule.ports), Some(Some((7, 7))));
        for word in [
            "", "0", "ipv5", "tcp:ipv4", "tcp:udp", "9-8", "1-70000", "1-", "-1", "+1", "any:1",
            "ipv4:", "tcp:1:2", "1,2",
        ] {
            assert_eq!(Rule::parse(word), None, "{word}");
        }
    }
}
