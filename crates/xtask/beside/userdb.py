"""What the user lookup of the manager answers (systemd.io/USER_GROUP_API): userdb.py NAME NUMBER"""
import json, socket, sys

name, number = sys.argv[1], int(sys.argv[2])
ours = {"service": "io.systemd.DynamicUser"}
for method, parameters in [
    ("GetUserRecord", {"userName": name, **ours}),
    ("GetUserRecord", {"uid": number, **ours}),
    ("GetUserRecord", {"userName": name, "uid": number, **ours}),
    ("GetUserRecord", {"userName": name, "uid": 3, **ours}),
    ("GetGroupRecord", {"groupName": name, **ours}),
    ("GetGroupRecord", {"gid": number, **ours}),
    ("GetGroupRecord", {"gid": 3, **ours}),
    ("GetMemberships", {"userName": name, **ours}),
    ("GetMemberships", {}),
    ("GetUserRecord", {"userName": name}),
    ("GetUserRecord", {"userName": name, "service": "io.systemd.Other"}),
    ("Nothing", {}),
]:
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(10)
    client.connect("/run/systemd/userdb/io.systemd.DynamicUser")
    call = {"method": "io.systemd.UserDatabase." + method, "parameters": parameters}
    client.send(json.dumps(call).encode() + b"\0")
    answer = json.loads(client.recv(65536).split(b"\0")[0])
    print(method, json.dumps(parameters, sort_keys=True), json.dumps(answer, sort_keys=True))
