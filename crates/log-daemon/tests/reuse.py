"""Messages of processes that are gone, while the next process has their id.

Usage, as the first process of a pid namespace: reuse.py DAEMON DIRECTORY. Exit status 77 where no process
id can be asked for.
"""

import ctypes
import os
import signal
import socket
import subprocess
import sys

PID = 4000
PR_SET_NAME = 15


def fork_as(name, work):
    """A child with the one process id and that name; it ends after its work."""
    with open("/proc/sys/kernel/ns_last_pid", "w") as last:
        last.write(str(PID - 1))
    child = os.fork()
    if child == 0:
        ctypes.CDLL(None).prctl(PR_SET_NAME, name.encode(), 0, 0, 0)
        work()
        os._exit(0)
    if child != PID:
        sys.exit(77)
    return child


STREAMS = {}


def connect(directory, identifier):
    """A stream that all processes write to."""
    stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    stream.connect(directory + "/run/stdout")
    stream.send(f"{identifier}\n\n6\n0\n0\n0\n0\n".encode())
    STREAMS[identifier] = stream


def send(directory, name, identifier, text, end="\n"):
    if name == "stdout":
        return STREAMS[identifier].send((text + end).encode())
    path, message = {
        "native": ("/run/socket", f"SYSLOG_IDENTIFIER={identifier}\nMESSAGE={text}\n"),
        "syslog": ("/run/dev-log", f"<14>{identifier}: {text}"),
    }[name]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        s.connect(directory + path)
        s.send(message.encode())


def start(daemon, directory):
    notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notify.bind(directory + "/notify")
    command = [daemon, "--directory", directory + "/store", "--socket-directory", directory + "/run"]
    process = subprocess.Popen(command, env={"NOTIFY_SOCKET": directory + "/notify"})
    assert notify.recv(64) == b"READY=1"
    return process


def stop(process):
    process.send_signal(signal.SIGSTOP)
    os.waitpid(process.pid, os.WUNTRACED)


def let_it_take_all(directory):
    order = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    order.connect(directory + "/run/io.warrener.journal")
    order.send(b'{"method":"io.warrener.Journal.Write","parameters":{}}\0')
    assert order.recv(64) == b'{"parameters":{}}\0'


def never_seen_alive(process, directory, name):
    """The daemon sees the message when the next one with that id is there, and not before."""
    stop(process)
    os.waitpid(fork_as("gone", lambda: send(directory, name, "GONE", name)), 0)
    read, write = os.pipe()
    heir = fork_as("heir", lambda: (os.close(write), os.read(read, 1)))
    process.send_signal(signal.SIGCONT)
    let_it_take_all(directory)
    os.close(write)
    os.waitpid(heir, 0)


def known_before(process, directory, name):
    """The daemon has just looked at the process; its last message and the next one's come together."""
    (said, saying), (read, write) = os.pipe(), os.pipe()

    def says_more():
        send(directory, name, "KNOWN", name + " 1")
        os.close(saying)
        os.close(write)
        os.read(read, 1)
        # On a stream the next one's line is not its end.
        send(directory, name, "KNOWN", name + " 2", "")

    first = fork_as("first", says_more)
    os.close(saying)
    os.read(said, 1)
    let_it_take_all(directory)
    stop(process)
    os.close(write)
    os.waitpid(first, 0)
    (said, saying), (read, write) = os.pipe(), os.pipe()

    def says_it():
        os.close(write)
        send(directory, name, "KNOWN", name + " 3")
        os.close(saying)
        os.read(read, 1)

    heir = fork_as("heir", says_it)
    os.close(saying)
    os.read(said, 1)
    process.send_signal(signal.SIGCONT)
    let_it_take_all(directory)
    os.close(write)
    os.waitpid(heir, 0)


def main(daemon, directory):
    process = start(daemon, directory)
    for identifier in ("GONE", "KNOWN"):
        connect(directory, identifier)
    for name in ("native", "syslog", "stdout"):
        never_seen_alive(process, directory, name)
        known_before(process, directory, name)
    process.terminate()
    assert process.wait() == 0


try:
    main(*sys.argv[1:])
except PermissionError:
    sys.exit(77)
