"""Sets of nf_tables without nft(8), which a machine need not have.

nft.py make TABLE SET KEY_BYTES   a table for IPv4 and IPv6, if it is not there, and a set in it
nft.py flush TABLE SET            nothing is in the set
nft.py list TABLE SET             what is in it, a number a line
"""
import socket
import struct
import sys

NEW_TABLE, NEW_SET, GET_ELEMENTS, DELETE_ELEMENTS = 0, 9, 13, 14
REQUEST, ACK, DUMP, CREATE, NESTED = 1, 4, 0x300, 0x400, 0x8000


def attribute(kind, content):
    content = content if isinstance(content, bytes) else content.encode() + b"\0"
    return struct.pack("=HH", 4 + len(content), kind) + content + bytes(-len(content) % 4)


def message(kind, flags, number, content=b"", family=1):
    resource = 10 if kind in (0x10, 0x11) else 0
    head = struct.pack("=BB", family, 0) + struct.pack(">H", resource)
    return struct.pack("=IHHII", 20 + len(content), kind, flags, number, 0) + head + content


def answers(netlink):
    while True:
        data = netlink.recv(1 << 16)
        while data:
            length, kind, flags, number, _ = struct.unpack_from("=IHHII", data)
            yield kind, number, data[16:length]
            data = data[(length + 3) & ~3 :]


def change(kind, content, flags=0):
    netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)
    begin, end = (message(kind, REQUEST, 1, family=0) for kind in (0x10, 0x11))
    netlink.send(begin + message(10 << 8 | kind, REQUEST | ACK | flags, 2, content) + end)
    for kind, number, data in answers(netlink):
        error = -struct.unpack_from("=i", data)[0]
        if kind == 2 and (error or number == 2):
            sys.exit("nf_tables: error %d" % error if error else 0)


def attributes(data):
    while len(data) >= 4:
        length, kind = struct.unpack_from("=HH", data)
        yield kind & 0x3FFF, data[4:length]
        data = data[(length + 3) & ~3 :]


def elements(table, name):
    netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)
    content = attribute(1, table) + attribute(2, name)
    netlink.send(message(10 << 8 | GET_ELEMENTS, REQUEST | DUMP, 1, content))
    for kind, _, data in answers(netlink):
        if kind == 2 and struct.unpack_from("=i", data)[0]:
            sys.exit("nf_tables: error %d" % -struct.unpack_from("=i", data)[0])
        if kind in (2, 3):
            return
        for kind, listed in attributes(data[4:]):
            for _, element in attributes(listed) if kind == 3 else ():
                key = dict(attributes(dict(attributes(element))[1]))[1]
                yield int.from_bytes(key, sys.byteorder)


verb, table, name = sys.argv[1:4]
if verb == "make":
    size = int(sys.argv[4])
    import os

    if os.fork() == 0:
        change(NEW_TABLE, attribute(1, table), CREATE)
    os.wait()
    # A key of any type: the kernel compares bytes.
    key = attribute(4, struct.pack(">I", 0)) + attribute(5, struct.pack(">I", size))
    content = attribute(1, table) + attribute(2, name) + key + attribute(10, struct.pack(">I", 1))
    change(NEW_SET, content, CREATE)
elif verb == "flush":
    change(DELETE_ELEMENTS, attribute(1, table) + attribute(2, name))
else:
    print("".join("%d\n" % number for number in sorted(elements(table, name))), end="")
