"""histories.py WARREN DIR SEED STEPS: lvm2's commands at random over loop devices, some run while disks
are away, some killed between two of their writes; disks are copied, and older metadata is put back. In
between, what `warren devices scan` says of some of the disks, in any order, is held against what lvm2
says of the same ones. Prints each difference; the last line counts.

Runs in a mount namespace of its own (the caller sees to that). What is not compared, and why:
- whether a group is complete, where lvm2 itself warns that headers or identifiers contradict each other;
- volumes of exported groups, of which lvm2 shows none;
- groups that lvm2's event way calls complete by the older metadata of one of their disks;
- what is missing from groups that both list one disk, as after a vgsplit that was killed: lvm2's tools
  count it for both, its event way and we for the group that the disk itself names;
- labels in other sectors than the second: lvm2's event way does not see them, its other tools do.
"""

import json
import os
import random
import shutil
import subprocess
import sys

WARREN, DIR, SEED, STEPS = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
CONF = """
devices { use_devicesfile=0 obtain_device_list_from_udev=0 external_device_info_source="none"
  hints="none" allow_mixed_block_sizes=1 }
global { use_lvmlockd=0 use_lvmpolld=0 notify_dbus=0 event_activation=1 system_id_source="none" }
activation { udev_sync=0 udev_rules=0 monitoring=0 }
backup { backup=0 archive=0 }
"""
CONTRADICTIONS = ("missing the used flag", "fix duplicate VGID", "prefers device")
ENV = dict(os.environ, LVM_SYSTEM_DIR=DIR, LVM_SUPPRESS_FD_WARNINGS="1", DM_DISABLE_UDEV="1", LC_ALL="C",
           PATH="/usr/sbin:/usr/bin:/sbin:/bin")
dice = random.Random(SEED)
disks = []
# How often a command is killed, and before which of its reads and writes.
KILLED, KILLED_AT_MOST = 0.15, 45
NAMES = ["a+b", "_x.y-z", "0", "a--b", ".hid", "+plus", "X" * 100]


def run(*words):
    return subprocess.run(words, capture_output=True, text=True, env=ENV)


def lvm(verb, *words, among=None):
    devices = ",".join(among or disks)
    return run("lvm", verb, "--driverloaded", "n", "--devices", devices, *words)


def killed(verb, *words, among):
    """The same, ended by a signal when it asks for one more read or write."""
    at = dice.randint(4, KILLED_AT_MOST)
    return run("strace", "-f", "-o", "/dev/null", "-e", "trace=io_submit",
               "-e", f"inject=io_submit:signal=KILL:when={at}",
               "lvm", verb, "--driverloaded", "n", "--devices", ",".join(among), *words)


def copy(source, target):
    """A disk that is another one byte by byte, as a snapshot of a storage array is."""
    if source != target:
        run("dd", f"if={source}", f"of={target}", "bs=1M", "iflag=direct", "oflag=direct")


def table(verb, fields, *words, among=None):
    """Rows of a report, and what was complained of."""
    said = lvm(verb, "--reportformat", "json", "-o", fields, *words, among=among)
    try:
        return json.loads(said.stdout)["report"][0][verb[:-1]], said.stderr
    except (ValueError, KeyError):
        return [], said.stderr


def pv_options():
    choices = [
        ["--metadatacopies", "0"], ["--metadatacopies", "2"], ["--dataalignment", "3m"],
        ["--dataalignmentoffset", "7s"], ["--metadatasize", "60k"], ["--metadatasize", "4m"],
        ["--bootloaderareasize", "1m"], ["--setphysicalvolumesize", "16m"], [], [], [],
    ]
    return dice.choice(choices) + dice.choice([["--dataalignment", "64k"], []])


def step(number):
    groups = sorted(row["vg_name"] for row in table("vgs", "vg_name")[0])
    # In the order of the disks: that of their names depends on what else is attached.
    rows = [row for row in table("pvs", "pv_name,vg_name")[0] if row["pv_name"] in disks]
    rows.sort(key=lambda row: disks.index(row["pv_name"]))
    free = [row["pv_name"] for row in rows if not row["vg_name"]]
    disk = dice.choice(disks)
    if not groups or dice.random() < 0.2:
        if not free or dice.random() < 0.5:
            return lvm("pvcreate", "-ff", "-y", *pv_options(), disk)
        some = dice.sample(free, min(len(free), dice.randint(1, 4)))
        return lvm("vgcreate", "-y", "-s", dice.choice(["512k", "4m"]), f"vg{number}", *some)
    group = dice.choice(groups)
    own = [row["pv_name"] for row in rows if row["vg_name"] == group] or [disk]
    volumes = sorted(row["lv_name"] for row in table("lvs", "lv_name", group)[0]) or ["none"]
    striped = dice.choice([[], ["-i", "2"]])
    size = str(2 * dice.randint(1, 3))
    create = ["lvcreate", "-an", "-Zn", "-Wn", "-y", "-l", size, *striped, "-n", f"lv{number}", group]
    words = dice.choice([
        create, create, create,
        ["lvremove", "-y", f"{group}/{dice.choice(volumes)}"],
        ["vgextend", group, dice.choice(free or disks)],
        ["vgreduce", "-y", group, dice.choice(own)],
        ["vgreduce", "--removemissing", "-y", group],
        ["vgreduce", "--removemissing", "--force", "-y", group],
        ["vgextend", "--restoremissing", group, disk],
        ["vgck", "--updatemetadata", "-y", group],
        ["vgsplit", "-y", group, f"part{number}", dice.choice(own)],
        ["vgmerge", "-y", group, dice.choice(groups)],
        ["vgrename", group, f"new{number}"],
        ["vgexport", group], ["vgimport", group],
        ["vgremove", "-f", "-y", group],
        ["vgchange", "-u", group],
        ["vgchange", "--addtag", f"t{number}", group],
        ["vgchange", "--vgmetadatacopies", dice.choice(["1", "all", "unmanaged"]), "-y", group],
        ["vgchange", "--setautoactivation", dice.choice("yn"), group],
        ["pvchange", "-u", disk], ["pvchange", "--metadataignore", dice.choice("yn"), disk],
        ["pvremove", "-ff", "-y", disk],
        ["pvresize", "-y", disk],
        ["pvresize", "-y", "--setphysicalvolumesize", dice.choice(["12m", "20m"]), disk],
        ["pvchange", "--addtag", f"@a+b=c/d:e#f&g!.h_-{number}", disk],
        ["lvextend", "-l", "+2", f"{group}/{dice.choice(volumes)}"],
        ["lvreduce", "-f", "-l", "-1", f"{group}/{dice.choice(volumes)}"],
        ["lvrename", group, dice.choice(volumes), f"o_d+d.-{number}"],
        ["lvchange", "--setautoactivation", dice.choice("yn"), f"{group}/{dice.choice(volumes)}"],
        ["lvchange", "-k", dice.choice("yn"), f"{group}/{dice.choice(volumes)}"],
        ["vgrename", group, dice.choice(NAMES)],
        ["vgcfgbackup", "-f", f"{DIR}/backup", group], ["vgcfgbackup", "-f", f"{DIR}/backup", group],
        ["vgcfgrestore", "--force", "-f", f"{DIR}/backup", group],
        ["vgcfgrestore", "--force", "-f", f"{DIR}/backup", group],
        ["vgimportclone", "-n", f"clone{number}", *own],
        ["copied", disk], ["copied", disk],
    ])
    here = disks if dice.random() < 0.7 else [disk for disk in disks if dice.random() < 0.7]
    if words[0] == "copied":
        target = dice.choice(disks)
        copy(disk, target)
        # Half of them stay one disk twice.
        words = dice.choice([["vgimportclone", "-n", f"clone{number}", target], ["pvs", target]])
    how = killed if dice.random() < KILLED else lvm
    return how(*words, among=here or disks)


def started(among):
    """Groups that lvm2's event way calls complete when these disks arrive."""
    for name in ("pvs_online", "pvs_lookup", "vgs_online"):
        shutil.rmtree(f"/run/lvm/{name}", ignore_errors=True)
    for disk in among:
        run("lvm", "pvscan", "--driverloaded", "n", "--cache", "--listvg", "--checkcomplete",
            "--vgonline", "--autoactivation", "event", disk)
    return set(os.listdir("/run/lvm/vgs_online")) if os.path.isdir("/run/lvm/vgs_online") else set()


def check():
    """Differences between our words and lvm2's about some of the disks; None where lvm2 has no answer."""
    some = [disk for disk in disks if dice.random() < 0.7] or list(disks)
    dice.shuffle(some)
    ours = [json.loads(line) for line in run(WARREN, "devices", "scan", "--json", *some).stdout.splitlines()]
    groups = {group["id"]: group for group in ours if group["kind"] == "group"}
    rows, complaints = table("vgs", "vg_uuid,vg_name,pv_count,vg_missing_pv_count,vg_exported", among=some)
    if any(word in complaints for word in CONTRADICTIONS):
        return None
    shown = {row["vg_uuid"]: row for row in rows}
    volumes = table("lvs", "vg_uuid,lv_name,lv_health_status", among=some)[0]
    listed = {}
    for row in table("pvs", "pv_uuid,vg_uuid", among=some)[0]:
        listed.setdefault(row["pv_uuid"], set()).add(row["vg_uuid"])
    torn = set().union(*(owners for owners in listed.values() if len(owners) > 1))
    found = []

    def compare(what, mine, theirs):
        if mine != theirs:
            found.append(f"{what}: ours {mine}, lvm2's {theirs}")

    compare("groups", sorted(groups), sorted(shown))
    for vgid in (groups.keys() & shown.keys()) - torn:
        mine, theirs = groups[vgid], shown[vgid]
        lost = [disk for disk in mine["disks"] if any("takes it for lost" in note for note in disk["notes"])]
        missing = mine["of"] - mine["present"] + len(lost)
        compare("name, members, missing", (mine["name"], mine["of"], missing),
                (theirs["vg_name"], int(theirs["pv_count"]), int(theirs["vg_missing_pv_count"])))
        if not theirs["vg_exported"]:
            compare("volumes", {v["name"]: v["standing"] for v in mine["volumes"]},
                    {v["lv_name"]: v["lv_health_status"] or "complete" for v in volumes if v["vg_uuid"] == vgid})
    complete = {g["name"] for g in groups.values() if g["complete"] and g["held"] != "exported"}
    theirs = started(some)
    if "ignoring metadata seqno" in complaints:
        theirs &= complete
    compare("complete when all arrived", sorted(complete), sorted(theirs))
    return found


def main():
    with open(f"{DIR}/lvm.conf", "w") as conf:
        conf.write(CONF)
    os.makedirs("/run/lvm", exist_ok=True)
    subprocess.check_call(["mount", "-t", "tmpfs", "none", "/run/lvm"])
    checks = differences = 0
    try:
        for number in range(dice.randint(5, 8)):
            path = f"{DIR}/disk{number}"
            with open(path, "w") as image:
                image.truncate(dice.choice([24, 33, 40]) << 20)
            attached = run("losetup", "-f", "--show", "-b", dice.choice(["512", "4096"]), path)
            attached.check_returncode()
            disks.append(attached.stdout.strip())
        for number in range(STEPS):
            done = step(number)
            if dice.random() < 0.4:
                found = check()
                if found is None:
                    continue
                checks += 1
                differences += len(found)
                for line in found:
                    print(f"seed {SEED}, step {number}, after {' '.join(done.args)}: {line}")
    finally:
        for disk in disks:
            run("losetup", "-d", disk)
    print(f"{checks} checks, {differences} differences")


main()
