"""measure.py USERS UNITS: what the managers of so many users take, and logins of ten others; one line of JSON to PORT.

Run by a service of the machine of `cargo xtask bench logins`. CPU is that of control groups, s; memory is what
processes have of their own plus their share of what several have (PSS), and what the kernel counts for the group.
"""
import glob
import json
import os
import subprocess
import sys
import time

PORT = "/dev/ttyS1"
GROUPS = "/sys/fs/cgroup"
FIRST, LOGINS = 2001, 10
# How long managers may take to come up, s, and how often that is looked at.
PATIENCE, LOOK = 2400, 2
# What it is at, for who waits.
CONSOLE = "/dev/console"
# The machine is at rest when it takes less CPU than that in so many seconds.
REST_CPU, REST = 1.0, 10


def read(path):
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def table(path):
    return {words[0]: int(words[1]) for words in map(str.split, read(path).splitlines()) if len(words) == 2}


def tell(text):
    with open(CONSOLE, "w") as console:
        console.write(f"measure: {text}\r\n")


def cpu(group):
    return table(f"{GROUPS}/{group}/cpu.stat").get("usage_usec", 0) / 1e6


def manager_group(uid):
    return f"user.slice/user-{uid}.slice/user@{uid}.service"


def manager_cpu(uid):
    """Of the session of PAM, the manager and its helpers, without what it started."""
    group = manager_group(uid)
    own = [below for below in glob.glob(f"{GROUPS}/{group}/*.slice")]
    return cpu(group) - sum(cpu(os.path.relpath(below, GROUPS)) for below in own)


def processes(group):
    return [int(pid) for pid in read(f"{GROUPS}/{group}/cgroup.procs").split()]


def memory(pids):
    """By the name of the process: how many, bytes of PSS, bytes that are nobody else's, threads, bytes in huge pages."""
    all = {}
    for pid in pids:
        lines = read(f"/proc/{pid}/smaps_rollup").splitlines()[1:]
        kib = {line.split()[0][:-1]: int(line.split()[1]) for line in lines}
        status = dict(line.split(":\t", 1) for line in read(f"/proc/{pid}/status").splitlines() if ":\t" in line)
        own = kib.get("Private_Clean", 0) + kib.get("Private_Dirty", 0)
        of = all.setdefault(read(f"/proc/{pid}/comm").strip(), [0, 0, 0, 0, 0])
        for index, value in enumerate([1, kib.get("Pss", 0) << 10, own << 10, int(status.get("Threads", 0)), kib.get("AnonHugePages", 0) << 10]):
            of[index] += value
    return all


def show(unit, name):
    return subprocess.run(["systemctl", "show", "-p", name, "--value", unit], capture_output=True, text=True).stdout.strip()


def rest():
    for _ in range(60):
        before = cpu("")
        time.sleep(REST)
        if cpu("") - before < REST_CPU:
            return
    raise SystemExit("the machine never comes to rest")


def login(uid):
    """One login and its end: CPU of the whole machine, and of the managers until the login is over."""
    name = f"many{uid - 2000}"
    group = manager_group(uid)
    before, system = cpu(""), cpu("init.scope")
    others = cpu("system.slice/systemd-logind.service") + cpu("system.slice/dbus.service")
    began = time.monotonic()
    own = f"cat {GROUPS}/{group}/cpu.stat; for i in {GROUPS}/{group}/*.slice/cpu.stat; do head -n 1 $i; done"
    said = subprocess.run(["su", "-", name, "-c", own], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    wall = time.monotonic() - began
    usages = [int(line.split()[1]) for line in said.stdout.splitlines() if line.startswith("usage_usec")]
    end = time.monotonic() + 120
    while os.path.exists(f"{GROUPS}/user.slice/user-{uid}.slice"):
        if time.monotonic() > end:
            raise SystemExit(f"{name} does not go: {said.stderr}")
        time.sleep(0.5)
    others = cpu("system.slice/systemd-logind.service") + cpu("system.slice/dbus.service") - others
    return {
        "machine_cpu_s": cpu("") - before,
        "system_manager_cpu_s": cpu("init.scope") - system,
        "user_manager_cpu_s": (usages[0] - sum(usages[1:])) / 1e6 if usages else None,
        "logind_and_bus_cpu_s": others,
        "wall_s": wall,
    }


def main():
    users, units = int(sys.argv[1]), int(sys.argv[2])
    uids = range(FIRST, FIRST + users)
    last = f"{GROUPS}/user.slice/user-*.slice/user@*.service/app.slice/unit-*.service"
    end = time.monotonic() + PATIENCE
    while len(glob.glob(last)) < users * units:
        if time.monotonic() > end:
            raise SystemExit(f"{len(glob.glob(last))} units run, of {users * units}")
        time.sleep(LOOK)
    tell("all units run")
    rest()
    tell("at rest")
    names = ",".join(f"user@{uid}.service" for uid in uids).split(",")
    shown = subprocess.run(
        ["systemctl", "show", "-p", "ActiveState", "-p", "ActiveEnterTimestampMonotonic", *names],
        capture_output=True, text=True).stdout
    up = shown.count("ActiveState=active")
    made = max(os.stat(group).st_ctime for group in glob.glob(last))
    booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    reached = [int(line.split("=")[1]) for line in shown.splitlines() if line.startswith("ActiveEnter")]
    scopes = [f"{manager_group(uid)}/init.scope" for uid in uids]
    kernel = [table(f"{GROUPS}/{scope}/memory.stat") for scope in scopes]
    result = {
        "users": users, "units": units, "managers_up": up, "units_up": len(glob.glob(last)),
        "up_s": max(reached) / 1e6, "services_up_s": made - booted, "machine_cpu_s": cpu(""), "system_manager_cpu_s": cpu("init.scope"),
        "logind_cpu_s": cpu("system.slice/systemd-logind.service"),
        "bus_cpu_s": cpu("system.slice/dbus.service"), "journal_cpu_s": cpu("system.slice/systemd-journald.service"),
        "managers_cpu_s": sum(manager_cpu(uid) for uid in uids),
        "users_cpu_s": sum(cpu(manager_group(uid)) for uid in uids),
        "managers": memory(pid for scope in scopes for pid in processes(scope)),
        "system_manager": memory(processes("init.scope")),
        "group_bytes": sum(int(read(f"{GROUPS}/{scope}/memory.current") or 0) for scope in scopes),
        "group_stat": {key: sum(one.get(key, 0) for one in kernel) for key in ["anon", "file", "shmem", "kernel", "slab", "kernel_stack", "pagetables", "sock"]},
        "memory_used_bytes": (lambda m: (m["MemTotal:"] - m["MemAvailable:"]) << 10)(
            {words[0]: int(words[1]) for words in map(str.split, read("/proc/meminfo").splitlines())}),
    }
    before = sum(manager_cpu(uid) for uid in uids)
    time.sleep(60)
    result["idle_cpu_s_a_minute"] = sum(manager_cpu(uid) for uid in uids) - before
    tell("users log in")
    result["logins"] = [login(FIRST + users + number) for number in range(LOGINS)]
    return result


try:
    said = json.dumps(main())
except BaseException as why:
    said = json.dumps({"why": f"{type(why).__name__}: {why}"})
subprocess.run(["stty", "-F", PORT, "raw", "-echo"])
with open(PORT, "w") as port:
    port.write(said + "\n")
subprocess.run(["systemctl", "--no-block", "poweroff"])
