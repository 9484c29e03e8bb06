"""dead_disk.py FILE PROGRAM...: mounts a file system on FILE that answers everything but reads, which
nothing can take back, not even a kill; runs the program and prints what it said and its status.

Runs in a mount namespace of its own (the caller sees to that). The program ends, or this does after a
minute and prints `still there`. Then the file system is taken away, which ends the reads.
"""

import ctypes
import os
import struct
import subprocess
import sys
import threading

FILE, PROGRAM = sys.argv[1], sys.argv[2:]
PATIENCE_S = 60
# Requests and flags of linux/fuse.h.
GETATTR, OPEN, READ, INIT, INTERRUPT, FORGET = 3, 14, 15, 26, 36, 2
DIRECT_IO = 1
ENOSYS = 38
ATTRIBUTES = struct.pack("<6Q10I", 1, 1 << 20, 2048, 0, 0, 0, 0, 0, 0, 0o100444, 1, 0, 0, 0, 4096, 0)
ANSWERS = {
    INIT: struct.pack("<4I2H2I2HI28x", 7, 31, 0, 0, 16, 12, 4096, 1, 0, 0, 0),
    GETATTR: struct.pack("<QII", 3600, 0, 0) + ATTRIBUTES,
    OPEN: struct.pack("<QII", 0, DIRECT_IO, 0),
}


def serve(device):
    while True:
        try:
            request = os.read(device, 1 << 17)
        except OSError:
            return
        _, kind, number = struct.unpack_from("<IIQ", request)
        if kind in (READ, INTERRUPT, FORGET):
            continue
        body = ANSWERS.get(kind)
        error = 0 if body is not None else -ENOSYS
        os.write(device, struct.pack("<IiQ", 16 + len(body or b""), error, number) + (body or b""))


def main():
    libc = ctypes.CDLL(None, use_errno=True)
    device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    options = f"fd={device},rootmode=100000,user_id=0,group_id=0".encode()
    if libc.mount(b"dead", FILE.encode(), b"fuse", 0, options) != 0:
        raise OSError(ctypes.get_errno(), "mount")
    threading.Thread(target=serve, args=[device], daemon=True).start()
    running = subprocess.Popen(PROGRAM, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True)
    try:
        # Whoever reads along hears the end, too.
        said, _ = running.communicate(timeout=PATIENCE_S)
        print(f"{said}status {running.returncode}")
    except subprocess.TimeoutExpired:
        print("still there")
    finally:
        libc.umount2(FILE.encode(), 2)
        sys.stdout.flush()
        # The last descriptor of the connection: its requests fail, and who waits for them ends.
        os._exit(0)


main()
