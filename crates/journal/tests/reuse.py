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


def send(directory, name):
    if name == "native":
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
            s.connect(directory + "/run/socket")
            s.send(b"MESSAGE=native\nGONE=1\n")
    else:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
            s.connect(directory + "/run/dev-log")
            s.send(b"<14>GONE: syslog")


def main(daemon, directory):
    notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notify.bind(directory + "/notify")
    command = [daemon, "--directory", directory + "/store", "--socket-directory", directory + "/run"]
    process = subprocess.Popen(command, env={"NOTIFY_SOCKET": directory + "/notify"})
    assert notify.recv(64) == b"READY=1"
    for name in ("native", "syslog"):
        # It sees the message when the next one with that id is there, and not before.
        process.send_signal(signal.SIGSTOP)
        os.waitpid(process.pid, os.WUNTRACED)
        os.waitpid(fork_as("gone", lambda: send(directory, name)), 0)
        read, write = os.pipe()
        heir = fork_as("heir", lambda: (os.close(write), os.read(read, 1)))
        process.send_signal(signal.SIGCONT)
        order = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        order.connect(directory + "/run/io.warrener.journal")
        order.send(b'{"method":"io.warrener.Journal.Write","parameters":{}}\0')
        assert order.recv(64) == b'{"parameters":{}}\0'
        os.close(write)
        os.waitpid(heir, 0)
    process.terminate()
    assert process.wait() == 0


try:
    main(*sys.argv[1:])
except PermissionError:
    sys.exit(77)
