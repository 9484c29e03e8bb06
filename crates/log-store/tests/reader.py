"""A second reader, written from docs/src/design/journal-format.md: prints a directory's entries.

Usage: reader.py DIRECTORY. Unpacks with the system's libzstd; exit status 77 without one.
"""

import ctypes
import ctypes.util
import math
import os
import re
import struct
import sys
import zlib

TEXT = b"MESSAGE"


def find_zstd():
    for name in (ctypes.util.find_library("zstd"), "libzstd.so.1"):
        try:
            return ctypes.CDLL(name) if name else None
        except OSError:
            pass
    return None


ZSTD = find_zstd()


def unpack(stored, raw, crc):
    assert zlib.crc32(stored) == crc, "checksum"
    if len(stored) == raw:
        return stored
    out = ctypes.create_string_buffer(raw)
    size = ctypes.c_size_t
    ZSTD.ZSTD_decompress.restype = size
    got = ZSTD.ZSTD_decompress(out, size(raw), stored, size(len(stored)))
    assert got == raw, "does not unpack"
    return out.raw


class Input:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        assert self.at + count <= len(self.data), "ends too early"
        self.at += count
        return self.data[self.at - count : self.at]

    def varint(self):
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def delta(self, before):
        n = self.varint()
        return (before + (-(n + 1) // 2 if n & 1 else n // 2)) % 2**64

    def bytes(self):
        return self.take(self.varint())


def deltas(data, count, before):
    out = []
    for _ in range(count):
        before = data.delta(before)
        out.append(before)
    return out


def column(data, rows, times):
    kind = data.take(1)[0]
    if kind == 0:
        lengths = [data.varint() for _ in rows]
        return [data.take(length) for length in lengths]
    if kind == 1:
        values = [data.bytes() for _ in range(data.varint())]
        return [values[data.varint()] for _ in rows]
    assert kind == 2, "unknown kind of column"
    return [str(data.delta(times[row])).encode() for row in rows]


def read_block(data, at):
    """Header and entries of the block at an offset; None when there is none."""
    head = data[at : at + 144]
    if len(head) < 144 or head[:8] != b"WARRENB1" or zlib.crc32(head[:140]) != struct.unpack("<I", head[140:])[0]:
        return None
    place, first, last, _, _, durable, count, kind = struct.unpack("<6Q2I", head[40:96])
    assert place == at, "block of another file or place"
    sizes = [struct.unpack("<3I", head[n : n + 12]) for n in (96, 108, 120)]
    sections, begin = [], at + 144
    for stored, raw, crc in sizes:
        sections.append(data[begin : begin + stored])
        begin += stored
    if any(zlib.crc32(s) != size[2] or len(s) != size[0] for s, size in zip(sections, sizes)):
        return None
    end = at + 144 + (begin - at - 144 + 7) // 8 * 8
    sections = [unpack(s, size[1], size[2]) for s, size in zip(sections, sizes)]
    entries = [] if kind else read_entries(sections, first, last, count)
    raw = sum(map(len, sections))
    return {"ids": head[8:40], "end": end, "durable": durable, "entries": entries, "text": sections[2], "raw": raw}


def read_entries(sections, first, last, count):
    rows = Input(sections[0])
    boots = [rows.take(16) for _ in range(rows.varint())]
    names = [rows.bytes() for _ in range(rows.varint())]
    shapes = [[rows.varint() for _ in range(rows.varint())] for _ in range(rows.varint())]
    contexts = [[(names[rows.varint()], rows.bytes()) for _ in range(rows.varint())] for _ in range(rows.varint())]
    numbers, real, mono = deltas(rows, count, first), deltas(rows, count, 0), deltas(rows, count, 0)
    boot, context, shape = ([rows.varint() for _ in range(count)] for _ in range(3))
    assert numbers[0] == first and numbers[-1] == last
    where = {n: [row for row in range(count) for f in shapes[shape[row]] if f == n] for n in range(len(names))}
    fields, values = Input(sections[1]), {}
    for n, name in enumerate(names):
        if name == TEXT:
            lengths, text = [rows.varint() for _ in where[n]], Input(sections[2])
            values[n] = [text.take(length) for length in lengths]
        elif where[n]:
            values[n] = column(fields, where[n], real)
    left = {n: iter(column) for n, column in values.items()}
    out = []
    for row in range(count):
        own = [(names[n], next(left[n])) for n in shapes[shape[row]]]
        out.append((numbers[row], real[row], mono[row], boots[boot[row]].hex(), own + contexts[context[row]]))
    return out


def read_log(data):
    blocks, gaps, at = [], [], 128
    while at < len(data):
        block = read_block(data, at)
        begin = at
        while block is None and at < len(data):
            at = data.find(b"WARRENB1", at + 1)
            at = len(data) if at < 0 else at
            block = read_block(data, at)
        if begin != at:
            gaps.append(begin)
        if block:
            block["at"], at = at, block["end"]
            blocks.append(block)
    durable = max([block["durable"] for block in blocks], default=0)
    end = min([gap for gap in gaps if gap >= durable], default=len(data))
    return [entry for block in blocks if block["at"] < end for entry in block["entries"]]


def read_place(data, at):
    """What a place of 20 bytes leads to, unpacked: always compressed."""
    offset, stored, raw, crc = struct.unpack("<Q3I", at)
    return unpack(data[offset : offset + stored], raw, crc)


def read_segment(data):
    trailer = data[-112:]
    assert trailer[:8] == b"WARRENT1" and zlib.crc32(trailer[:108]) == struct.unpack("<I", trailer[108:])[0]
    assert trailer[8:40] == data[16:48] and struct.unpack("<Q", trailer[60:68])[0] == len(data)
    assert trailer[76:80] == data[8:12] and trailer[80:108] == bytes(28)
    directory = Input(read_place(data, trailer[40:60]))
    blocks, end = [], 128
    for number in range(directory.varint()):
        at = directory.varint() + (0 if number == 0 else end)
        size, first = directory.varint(), directory.varint()
        last, earliest = first + directory.varint(), directory.varint()
        latest, count = directory.delta(earliest), directory.varint()
        end = at + size
        block = read_block(data, at)
        assert block["end"] == end and len(block["entries"]) == count
        times = [entry[1] for entry in block["entries"]]
        assert (block["entries"][0][0], block["entries"][-1][0]) == (first, last)
        assert (min(times), max(times)) == (earliest, latest)
        blocks.append(block)
    assert sum(block["raw"] for block in blocks) == struct.unpack("<Q", trailer[68:76])[0]
    check_boots(directory, blocks)
    check_fields(data, directory, blocks)
    filters = read_place(data, directory.take(20))
    assert filters == b"".join(text_filter(block["text"]) for block in blocks), "text filters"
    assert directory.at == len(directory.data)
    return [entry for block in blocks for entry in block["entries"]]


def check_boots(directory, blocks):
    """What the directory says of boots is so."""
    boots = {}
    for block in blocks:
        for _, real, _, boot, _ in block["entries"]:
            times, _ = boots.setdefault(boot, ([], block["entries"][0][0]))
            times.append(real)
    assert directory.varint() == len(boots)
    for boot, (times, first) in boots.items():
        said = directory.take(16).hex(), directory.varint(), directory.varint(), directory.varint()
        assert said == (boot, min(times), max(times), first), "boots"


def check_fields(data, directory, blocks):
    """What the indexes say of fields is so, and leaves out what the coverage says."""
    where = {}
    for number, block in enumerate(blocks):
        for entry in block["entries"]:
            for name, value in entry[4]:
                where.setdefault(name, {}).setdefault(value, set()).add(number)
    names = []
    for _ in range(directory.varint()):
        name, coverage, found = directory.bytes(), directory.take(1)[0], {}
        for _ in range(directory.varint()):
            first, chunk = directory.bytes(), read_chunk(read_place(data, directory.take(20)))
            assert first == chunk[0][0] and (not found or max(found) < first), "chunks rise"
            found.update(chunk)
        longest = [math.inf, 256, -1][coverage]
        assert found == {v: b for v, b in where[name].items() if len(v) <= longest}, name
        names.append(name)
    assert names == sorted(where), "all fields"


def read_chunk(data):
    chunk, values, before = Input(data), [], b""
    while chunk.at < len(chunk.data):
        shared = chunk.varint()
        before = before[:shared] + chunk.bytes()
        numbers, last = set(), -1
        for _ in range(chunk.varint()):
            last += chunk.varint() + 1
            numbers.add(last)
        values.append((before, numbers))
    assert [value for value, _ in values] == sorted(value for value, _ in values)
    return values


def class_of(byte):
    c = chr(byte)
    if c.isascii() and c.isalpha():
        return ord(c.lower()) - ord("a")
    for number, those in ((26, "0123456789"), (27, " \t\n\r"), (28, "/\\"), (29, "-_.")):
        if c in those:
            return number
    return 30 if byte < 128 else 31


def text_filter(text):
    bits = bytearray(4096)
    classes = [class_of(byte) for byte in text]
    for a, b, c in zip(classes, classes[1:], classes[2:]):
        n = a * 1024 + b * 32 + c
        bits[n // 8] |= 1 << n % 8
    return bytes(bits)


def counting(names):
    """The files that are not replaced by another."""
    pattern = re.compile(r"([a-z0-9_]{1,32})-([0-9a-f]{16})(?:-([0-9a-f]{16}))?\.(log|seg)$")
    found = [(m[0], m[1], int(m[2], 16), int(m[3] or m[2], 16), m[4]) for m in map(pattern.match, names) if m]
    segments = [f for f in found if f[4] == "seg"]
    for name, class_, first, last, kind in found:
        outer = [s for s in segments if s[0] != name and s[1] == class_ and s[2] <= first and last <= s[3]]
        if not outer:
            yield name, kind


def text(value):
    return "".join(chr(b) if 32 <= b < 127 and b != 92 else "\\x%02x" % b for b in value)


def main(directory):
    entries = []
    for name, kind in counting(os.listdir(directory)):
        with open(os.path.join(directory, name), "rb") as file:
            data = file.read()
        entries += read_log(data) if kind == "log" else read_segment(data)
    for number, real, mono, boot, fields in sorted(entries):
        print(number, real, mono, boot)
        for name, value in fields:
            print(" %s=%s" % (name.decode(), text(value)))


if __name__ == "__main__":
    sys.exit(77 if ZSTD is None else main(sys.argv[1]))
