"""A receiver that wants certificates of its senders: takes connections at descriptor 0, answers every
request, and prints for each the sender's name and how many entries it brought.

usage: receiver.py CERT KEY TRUST
"""

import socket
import ssl
import sys

context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1], sys.argv[2])
context.load_verify_locations(sys.argv[3])
context.verify_mode = ssl.CERT_REQUIRED
listener = socket.socket(fileno=0)


def requests(stream):
    while stream.readline():
        while stream.readline().strip():
            pass
        body = b""
        while size := int(stream.readline(), 16):
            body += stream.read(size)
            stream.readline()
        stream.readline()
        yield body


while True:
    connection = listener.accept()[0]
    try:
        with context.wrap_socket(connection, server_side=True) as client:
            name = dict(part[0] for part in client.getpeercert()["subject"])["commonName"]
            for body in requests(client.makefile("rb")):
                # Said first: who has the answer may end this process.
                print(name, body.count(b"\nMESSAGE="), flush=True)
                client.sendall(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")
    except OSError as error:
        print("refused", type(error).__name__, flush=True)
