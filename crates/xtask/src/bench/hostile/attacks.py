"""What a user without privileges does to a machine, for `cargo xtask bench hostile`.

attacks.py ATTACK ROOT: as user 65534 (or as the user of a service, which it is then already), against the sockets below
ROOT. Says `ready` when it is under way, and goes on until its standard input ends. Attacks whose name begins with
`unit-` run in a service and go on until they are killed.
"""
import json, os, resource, select, socket, sys, time

UID = 65534
HALF_LINE = b'a' * 48000
LINES, DOORS, CLIENTS = 1000, 64, 16


def become():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if os.getuid() == 0:
        os.setgroups([])
        os.setresgid(UID, UID, UID)
        os.setresuid(UID, UID, UID)


def ready(text=''):
    print('ready', text, flush=True)


def is_over():
    return bool(select.select([sys.stdin], [], [], 0)[0])


def stay():
    sys.stdin.read()


def connected(path, kind=socket.SOCK_STREAM):
    client = socket.socket(socket.AF_UNIX, kind)
    client.settimeout(5)
    client.connect(path)
    return client


def flood(path, message):
    """The same datagram for ever, as fast as it is taken."""
    client = connected(path, socket.SOCK_DGRAM)
    ready()
    count = 0
    while count % 64 or not is_over():
        count += 1
        try:
            client.send(message)
        except OSError:
            try:
                client = connected(path, socket.SOCK_DGRAM)
            except OSError:
                time.sleep(0.01)


def notify_flood(root):
    flood(root + '/run/systemd/notify', b'WATCHDOG=1\nSTATUS=' + b'x' * 1000)


def log_flood(root):
    flood(root + '/run/systemd/journal/socket', b'MESSAGE=' + b'noise ' * 20 + b'\nPRIORITY=6\n')


def half_lines(root):
    """Streams whose lines do not end."""
    held = []
    for _ in range(LINES):
        try:
            client = connected(root + '/run/systemd/journal/stdout')
            client.sendall(b'x\n\n6\n0\n0\n0\n0\n' + HALF_LINE)
            held.append(client)
        except OSError:
            pass
    ready(len(held))
    stay()


def half_requests(root):
    """Requests that do not end, at the control socket."""
    held = []
    for _ in range(DOORS):
        try:
            client = connected(root + '/run/warren/control')
            client.sendall(b'{"method":"io.warrener.Manager.List","parameters":{"patterns":["' + b'a' * 60000)
            held.append(client)
        except OSError:
            pass
    ready(len(held))
    stay()


def call(client, method, parameters):
    request = {'method': 'io.warrener.Manager.' + method, 'parameters': parameters}
    client.sendall(json.dumps(request).encode() + b'\0')
    while not client.recv(1 << 20).endswith(b'\0'):
        pass


def asking(root, question):
    """So many clients that ask without a pause."""
    for number in range(CLIENTS):
        if os.fork() == 0:
            client, count = None, 0
            while os.getppid() != 1:
                count += 1
                try:
                    client = client or connected(root + '/run/warren/control')
                    call(client, *question(number, count))
                except OSError:
                    client = None
                    time.sleep(0.01)
            os._exit(0)
    ready()
    stay()
    os.killpg(0, 9)


def busy_processes(root):
    """No attack of ours: so many processes that compute."""
    for _ in range(CLIENTS):
        if os.fork() == 0:
            while os.getppid() != 1:
                sum(range(10000))
            os._exit(0)
    ready()
    stay()
    os.killpg(0, 9)


def list_flood(root):
    asking(root, lambda number, count: ('List', {'patterns': ['*']}))


def unknown_units(root):
    asking(root, lambda number, count: ('Status', {'unit': f'no-{number}-{count}.service'}))


def connection_flood(root):
    """Connections to a socket that starts an instance for each."""
    ready()
    while not is_over():
        held = []
        for _ in range(DOORS):
            try:
                held.append(connected(root + '/run/hostile-door'))
            except OSError:
                pass
        for client in held:
            client.close()


def unit_deep_directories():
    """Directories in one another below the run directory, which are removed when the service ends."""
    os.chdir(os.environ['RUNTIME_DIRECTORY'])
    for _ in range(20000):
        os.mkdir('d')
        os.chdir('d')
    time.sleep(1)


def unit_deep_groups():
    """Groups in one another below a delegated one."""
    own = next(line for line in open('/proc/self/cgroup') if line.startswith('0::'))
    os.chdir('/sys/fs/cgroup' + own[3:].strip())
    for _ in range(2000):
        try:
            os.mkdir('g')
            os.chdir('g')
        except OSError:
            break
    time.sleep(1000)


def unit_exits():
    """Processes that end without a parent, for ever: process 1 takes each."""
    while True:
        child = os.fork()
        if child == 0:
            for _ in range(20):
                if os.fork() == 0:
                    os._exit(0)
            os._exit(0)
        os.waitpid(child, 0)


def main(attack, root):
    function = globals()[attack.replace('-', '_')]
    if attack.startswith('unit-'):
        return function()
    os.setpgid(0, 0)
    # A stranger may not go through /proc, but has a door of the machine before him.
    os.chdir(root)
    become()
    function('.')


main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else '')
