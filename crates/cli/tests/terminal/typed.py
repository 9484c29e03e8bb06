"""typed.py KEYS TEXT COMMAND...: runs a command on a terminal of its own. Once it shows TEXT, types KEYS, or sends
the signal of that name. Ends with its status when it has ended; with 99 if it does not within 20 seconds."""

import os
import pty
import select
import signal
import sys
import time

keys, text, command = sys.argv[1], sys.argv[2].encode(), sys.argv[3:]
pid, terminal = pty.fork()
if pid == 0:
    os.execv(command[0], command)
shown, is_typed, until = b"", False, time.monotonic() + 20
while time.monotonic() < until:
    if select.select([terminal], [], [], 0.1)[0]:
        try:
            shown += os.read(terminal, 65536)
        except OSError:
            # Nobody has the terminal any more.
            sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    if text in shown and not is_typed:
        is_typed = True
        number = getattr(signal, "SIG" + keys, None) if keys.isupper() else None
        if number:
            os.kill(pid, number)
        else:
            os.write(terminal, keys.encode())
print("after", keys, "it goes on:", shown[-300:], file=sys.stderr)
os.kill(pid, signal.SIGKILL)
sys.exit(99)
