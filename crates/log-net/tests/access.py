"""A varlink client of its own: calls a method and prints each reply's parameters as a line of JSON.

usage: access.py SOCKET METHOD PARAMETERS [REPLIES]   (the `varlink` module is used where it is there)
"""

import json
import socket
import sys

path, method, parameters = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
wanted = int(sys.argv[4]) if len(sys.argv) > 4 else None


def by_hand():
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        call = {"method": method, "parameters": parameters, "more": True}
        connection.sendall(json.dumps(call).encode() + b"\0")
        replies = connection.makefile("rb")
        data, continues = b"", True
        while continues:
            byte = replies.read(1)
            if not byte:
                raise SystemExit("the connection ended")
            if byte != b"\0":
                data += byte
                continue
            reply, data = json.loads(data), b""
            continues = reply.get("continues", False)
            yield reply


def by_module():
    import varlink

    interface, name = method.rsplit(".", 1)
    with varlink.Client.new_with_address(f"unix:{path}") as client:
        with client.open(interface) as opened:
            try:
                for parameters_of_reply in getattr(opened, name)(_more=True, **parameters):
                    yield {"parameters": parameters_of_reply}
            except varlink.VarlinkError as error:
                yield {"error": error.error(), "parameters": error.parameters()}


try:
    import varlink  # noqa: F401

    replies = by_module()
    print("module")
except ImportError:
    replies = by_hand()
    print("by hand")
for number, reply in enumerate(replies):
    if "error" in reply:
        print(json.dumps([reply["error"], reply.get("parameters") or {}]))
    else:
        print(json.dumps(reply["parameters"]))
    sys.stdout.flush()
    if wanted == number + 1:
        break
