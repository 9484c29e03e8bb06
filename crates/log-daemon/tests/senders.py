"""Sends messages of every odd shape to the sockets of a log daemon, and has logger(1) and systemd-cat(1)
send some."""

import array
import fcntl
import os
import socket
import subprocess

RUN = "/run/systemd/journal/"


def connect(name, kind=socket.SOCK_DGRAM):
    while True:
        connection = socket.socket(socket.AF_UNIX, kind)
        try:
            connection.connect(RUN + name)
            return connection
        except OSError:
            # The daemon is on its way.
            connection.close()
            os.sched_yield()


TIME = b"<13>Nov 22 10:00:00 "
SYSLOG = [
    TIME + text
    for text in [
        b"t: plain", b"t: nl\n", b"t: nul\0", b"t: nlnul\n\0", b"t: sp ", b"t:  two lead", b"  t: lead tag",
        b"t: in\0side", b"no tag", b"  no tag lead", b"t:", b"t: ", b"t:\tx", b"t[1]x: y", b"[1]: y", b"a[]: y",
        b"a[b]: y", b"]: y", b": y", b"t:\xc2\xa0y", b"x" * 3000 + b": y", b"a b: y", b"(a): y", b"a\x01b: y",
        b"a[1][2]: y", b"a[1 2]: y", b"-: y",
    ]
] + [
    b" " + TIME + b"t: lead all", b"<13>Nov 22 10:00:00: t", b"<13>Nov 32 10:00:00 t: y",
    b"<13>Foo 22 10:00:00 t: y", b"<13>Nov  2 25:00:00 t: y", b"<13>Nov 02 10:00:00 t: y",
    b"<13>nov 22 10:00:00 t: y", b"<13>Nov 22 10:00:61 t: y", b"<13> Nov 22 10:00:00 t: y",
    b"<013>Nov 22 10:00:00 t: y", b"<0013>x", b"\n<13>Nov 22 10:00:00 t: y", b"\0", b" ", b"\n", b"", b"<13>",
    b"<13>\0", b"<>x", b"<a>x", b"<-1>x", b"<1", b"<191>y: z\r\n", b"no prio", b"<999>big", b"\xff\xfebin",
    b"<13>" + b"z" * 70000, b"<13>2026-10-11T22:14:15Z t: iso", b"<13>a\nb", b"<13>end\n\n",
]
NATIVE = [
    b"A=1\nMESSAGE=noend", b"MESSAGE=ok\nB=noend", b"MESSAGE=ok2\nBIN\n\x02\0\0\0\0\0\0\0xx",
    b"MESSAGE=ok3\nBIN\n\x02\0\0\0\0\0\0\0xxZ=1\n", b"MESSAGE=ok7\nBIN\n",
    b"MESSAGE=ok8\nlower\n\x02\0\0\0\0\0\0\0xx\nQ=1\n", b"MESSAGE=ok9\nPRIORITY=12\n",
    b"MESSAGE=ok10\nSYSLOG_FACILITY=x\n", b"MESSAGE=ok11\n=v\n", b"MESSAGE=ok12\nA\x01B=v\n",
    b"MESSAGE=ok13\n A=v\n", b"MESSAGE=ok14\nA =v\n", b"MESSAGE=ok15\nA=\n",
    b"MESSAGE=ok16\n" + b"A" * 64 + b"=1\n" + b"B" * 65 + b"=1\n", b"OBJECT_PID=x\nMESSAGE=ok18\n",
    b"OBJECT_PID=%d\nOBJECT_COMM=forged\nMESSAGE=ok19\n" % os.getpid(), b"MESSAGE=ok20\nQ=\xff\xfe\n",
    b"MESSAGE=ok22\nA=" + b"z" * 100000 + b"\n", b"MESSAGE=ok23\n_A=1\n__B=1\n", b"MESSAGE=one\n\nMESSAGE=two\n",
    b"# comment\n.dot\nMESSAGE=c\n", b"A=no message\n", b"MESSAGE=\n", b"novalue\n", b"MESSAGE=a\nMESSAGE=b\n", b"",
]
HEADER = b"%s\n%s\n%s\n%s\n0\n0\n0\n"
STREAMS = [
    (HEADER % (b"s1", b"", b"6", b"1"),
     b" lead\ntrail \ntab\t\ncr\r\n \t \n<3>\n<3> x\n<3>x \n<30>y\n<7>z\n<8>z\n<03>z\n<3\n<>\nvt\x0b\n"
     b"nul \0 x\0\0\n<1><2>x\n\n\xff\xfe\nlast "),
    (HEADER % (b" s2 ", b"", b"30", b"1"), b"<3>x\ny\n"),
    (HEADER % (b"s3", b"", b" 6", b"1"), b"x\n"),
    (HEADER % (b"s4", b"some.service", b"06", b"0"), b"<3>x\n"),
    (HEADER % (b"s5", b"", b"6", b"yes"), b"x\n"),
    (HEADER % (b"s6", b"", b"6", b"true"), b"x\n"),
    (HEADER % (b"s7", b"", b"", b"1"), b"x\n"),
    (HEADER % (b"s8", b"", b"6", b""), b"x\n"),
    (HEADER % (b"s9", b"", b"192", b"1"), b"x\n"),
    (HEADER % (b"sa", b"", b"1000", b"1"), b"x\n"),
    (HEADER % (b"sb", b"", b"6", b"1"), b"L" * 50000 + b"\n"),
    (HEADER % (b"i" * 300, b"", b"6", b"1"), b"x\n"),
]


def send_file(socket_of_native, descriptor):
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))]
    socket_of_native.sendmsg([b""], rights)
    os.close(descriptor)


syslog, native = connect("dev-log"), connect("socket")
for message in SYSLOG:
    syslog.send(message)
for message in NATIVE:
    native.send(message)
for sealed in [True, False]:
    memory = os.memfd_create("message", os.MFD_ALLOW_SEALING)
    os.write(memory, b"MESSAGE=in memory, %d\n" % sealed)
    if sealed:
        fcntl.fcntl(memory, fcntl.F_ADD_SEALS if hasattr(fcntl, "F_ADD_SEALS") else 1033, 0xF)
    send_file(native, memory)
for directory in ["/dev/shm", "/tmp", "/root"]:
    path = f"{directory}/message-{os.getpid()}"
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    os.unlink(path)
    os.write(file, b"MESSAGE=in a file of %s\n" % directory.encode())
    send_file(native, file)
for header, text in STREAMS:
    stream = connect("stdout", socket.SOCK_STREAM)
    stream.sendall(header + text)
    stream.close()
# A line goes on in another process: it ends where that begins.
stream = connect("stdout", socket.SOCK_STREAM)
stream.sendall(HEADER % (b"fork", b"", b"6", b"1") + b"begun by one,")
if os.fork() == 0:
    stream.sendall(b" ended by two\n")
    os._exit(0)
os.wait()
stream.close()
for arguments in [
    ["plain"], ["-t", "tag", "tagged"], ["-p", "local3.err", "with prio"], ["--id=4711", "with id"],
    ["--rfc3164", "old"], ["--rfc5424=notime,notq,nohost", "new"], ["-t", "a b", "blank"],
    ["--rfc5424=notime,notq,nohost", "--msgid", "M", "with msgid"], [" leading"], ["trailing  "], [""],
]:
    subprocess.run(["logger", "-u", RUN + "dev-log", *arguments], check=True)
LINES = b"MESSAGE=from logger\nPRIORITY=4\nFOO=bar\nFOO=baz\n"
subprocess.run(["logger", "--journald"], input=LINES, check=True)
TEXT = 'echo out; echo err >&2; printf "<3>prio\\n<9>x\\nno end"'
for arguments in [["-t", "cat", "-p", "warning"], ["-t", "raw", "--level-prefix=false"]]:
    subprocess.run(["systemd-cat", *arguments, "sh", "-c", TEXT], check=True)
try:
    from systemd import journal

    journal.send("from python", PRIORITY=3, BIN=b"\x00\xff\n", EMPTY="")
    journal.send("x" * 100000, BIG="y" * 300000)
except ImportError:
    print("NOT RUN: python3-systemd")
# When these are recorded, all is.
syslog.send(b"<13>the last line")
native.send(b"MESSAGE=the last message\n")
stream = connect("stdout", socket.SOCK_STREAM)
stream.sendall(HEADER % (b"last", b"", b"6", b"1") + b"the last output\n")
stream.close()
