use super::control::{InitMessage, InitRequest, pack_name, unpack_names};
use super::exec::{HelperReply, HelperRequest, SpawnRequest};
use super::*;

#[test]
fn packets_come_back_as_they_went() {
    let request = HelperRequest::Spawn(SpawnRequest { id: 7, exec: Box::default() });
    let packet = encode(&request).expect("small");
    assert_eq!(packet.first(), Some(&PROTOCOL_VERSION));
    assert_eq!(decode(&packet), Ok(request));

    let store = InitRequest::StoreFd { name: "state" };
    let mut buffer = [0; 64];
    let packet = encode_into(&store, &mut buffer).expect("small");
    assert_eq!(decode(packet), Ok(store));
}

#[track_caller]
fn check_refused(packet: &[u8], expected: WireError) {
    assert_eq!(decode::<HelperReply>(packet), Err(expected.clone()));
    assert_eq!(decode::<InitMessage<'_>>(packet).map(|_| ()), Err(expected));
}

#[test]
fn damaged_packets_are_refused() {
    check_refused(&[], WireError::Empty);
    check_refused(&[9, 1, 2], WireError::Version(9));
    check_refused(&[PROTOCOL_VERSION], WireError::Malformed);
    check_refused(&[PROTOCOL_VERSION, 99, 0, 0], WireError::Malformed);
    let mut packet = encode(&HelperReply::Synced(1)).expect("small");
    packet.push(0);
    assert_eq!(decode::<HelperReply>(&packet), Err(WireError::Malformed));
    assert_eq!(encode_into(&InitRequest::Hello, &mut [0; 1]), Err(WireError::TooLarge));
}

#[test]
fn no_cut_of_a_packet_is_understood() {
    let request = HelperRequest::Spawn(SpawnRequest { id: 300, exec: Box::default() });
    let packet = encode(&request).expect("small");
    for end in 0..packet.len() {
        assert!(decode::<HelperRequest>(&packet[..end]).is_err(), "cut at {end}");
    }
}

#[test]
fn names_are_packed_until_the_buffer_is_full() {
    let mut buffer = [0; 12];
    let mut used = 0;
    assert!(pack_name(&mut buffer, &mut used, "abc"));
    assert!(pack_name(&mut buffer, &mut used, "ä"));
    assert!(!pack_name(&mut buffer, &mut used, "xy"));
    assert_eq!(unpack_names(&buffer[..used]).collect::<Vec<_>>(), ["abc", "ä"]);
    assert_eq!(unpack_names(&[5, 0, b'a']).count(), 0);
}

#[test]
fn exit_codes_are_those_of_the_manual() {
    for &step in ExecStep::ALL {
        assert_eq!(ExecStep::from_exit_code(step.exit_code()), Some(step));
    }
    assert_eq!(ExecStep::Exec.exit_code(), 203);
    assert_eq!(ExecStep::ConfigurationDirectory.exit_code(), 241);
    assert_eq!(ExecStep::from_exit_code(1), None);
}
