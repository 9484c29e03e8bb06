#!/bin/bash
# lvm.sh DIR: makes disks in DIR/disks with lvm2, then writes what lvm2 says of them to
# DIR/{pvs,vgs,lvs}. Runs in a mount namespace of its own (the caller sees to that), on loop devices
# that it detaches whatever happens.
set -eu
DIR=$1
declare -A loop
trap 'losetup -d "${loop[@]}"; rm -rf "$DIR/etc"' EXIT
mkdir -p "$DIR/disks" "$DIR/etc" /run/lvm
mount -t tmpfs none /run/lvm
cat > "$DIR/etc/lvm.conf" <<C
devices { use_devicesfile=0 obtain_device_list_from_udev=0 external_device_info_source="none" hints="none" }
global { use_lvmlockd=0 use_lvmpolld=0 notify_dbus=0 event_activation=1 system_id_source="lvmlocal" }
activation { udev_sync=0 udev_rules=0 monitoring=0 }
local { system_id="thishost" extra_system_ids=["otherhost"] }
backup { backup=0 archive=0 }
C
export LVM_SYSTEM_DIR="$DIR/etc" LVM_SUPPRESS_FD_WARNINGS=1 DM_DISABLE_UDEV=1
all=
disk() { # disk NAME...: sparse, attached
    for name; do
        truncate -s 32M "$DIR/disks/$name"
        loop[$name]=$(losetup -f --show "$DIR/disks/$name")
        all=${all:+$all,}${loop[$name]}
    done
}
of() { for name; do printf '%s ' "${loop[$name]}"; done; }
lvm2() { local verb=$1; shift; command lvm "$verb" -q --driverloaded n --devices "$all" "$@" >/dev/null; }
say() { local verb=$1; shift; command lvm "$verb" --driverloaded n --devices "$all" --noheadings --nosuffix --units b --separator '|' "$@"; }
create() { lvm2 lvcreate -an -Zn -Wn "$@"; }

# Plain: three disks, linear over two, striped.
disk plain0 plain1 plain2
lvm2 pvcreate $(of plain0 plain1 plain2)
lvm2 vgcreate data $(of plain0 plain1 plain2)
create -L 40M -n linear data
create -i 2 -L 8M -n striped data
create -L 4M -n with-dash.dot data

# Two copies of the metadata, none, and one that is to be ignored.
disk copies2 copies0 ignored
lvm2 pvcreate --metadatacopies 2 $(of copies2)
lvm2 pvcreate --metadatacopies 0 $(of copies0)
lvm2 pvcreate $(of ignored)
lvm2 vgcreate mixed $(of copies2 copies0 ignored)
lvm2 pvchange --metadataignore y $(of ignored)
create -L 4M -n keep mixed

# The label elsewhere, a small metadata area whose ring goes round, many volumes.
disk sector3
lvm2 pvcreate --labelsector 3 --metadatasize 60k --dataalignment 64k $(of sector3)
lvm2 vgcreate -s 1m ring $(of sector3)
for i in $(seq 16); do create -l 1 -n "lv$i" ring; done
# One of these texts goes round the end: sixteen are longer than the ring.
mkdir "$DIR/ring"
for i in $(seq 16); do
    lvm2 vgchange --addtag "tag$i" ring
    cp --sparse=always "$DIR/disks/sector3" "$DIR/ring/$i"
done

# What must not be activated by itself.
disk exported foreign manual unused volume-manual
lvm2 pvcreate $(of exported foreign manual unused volume-manual)
lvm2 vgcreate away $(of exported)
lvm2 vgexport away
lvm2 vgcreate --systemid otherhost other $(of foreign)
lvm2 vgcreate --setautoactivation n byhand $(of manual)
lvm2 vgcreate single $(of volume-manual)
create --setautoactivation n -L 4M -n quiet single
create -L 4M -n loud single

# raid1, thin and snapshot cannot be created without device-mapper; their metadata can.
disk raid0 raid1
lvm2 pvcreate $(of raid0 raid1)
lvm2 vgcreate --alloc anywhere layers $(of raid0 raid1)
# Names of hidden volumes are reserved, so letters first.
for letter in a b c d e f g h i; do create -l 1 -n "x$letter" layers; done
lvm2 vgcfgbackup -f "$DIR/etc/layers" layers
python3 - "$DIR/etc/layers" <<'P'
import re, sys
path = sys.argv[1]
text = open(path).read()
letters = iter("abcdefghi")
def segment(name, body, visible):
    """Renames the next volume, replaces its segment, hides it unless visible."""
    global text
    old = "x" + next(letters)
    start = text.index("\t\t%s {" % old)
    end = text.index("\n\t\t}\n", start)
    volume = text[start:end].replace(old + " {", name + " {")
    if not visible:
        volume = volume.replace('"VISIBLE"', "").replace('"WRITE", ', '"WRITE"')
    if body:
        volume = re.sub(r'type = "striped".*?\]', body, volume, flags=re.S)
    text = text[:start] + volume + text[end:]
for name in "r_rimage_0", "r_rimage_1", "r_rmeta_0", "r_rmeta_1", "p_tdata", "p_tmeta":
    segment(name, "", False)
segment("r", 'type = "raid1"\ndevice_count = 2\nregion_size = 4096\n'
    'raids = ["r_rmeta_0", "r_rimage_0", "r_rmeta_1", "r_rimage_1"]', True)
segment("p", 'type = "thin-pool"\nmetadata = "p_tmeta"\npool = "p_tdata"\n'
    'transaction_id = 1\nchunk_size = 128\ndiscards = "passdown"\nzero_new_blocks = 1', True)
segment("t", 'type = "thin"\nthin_pool = "p"\ntransaction_id = 0\ndevice_id = 1', True)
open(path, "w").write(text)
P
lvm2 vgcfgrestore --force -f "$DIR/etc/layers" layers

# A disk that is larger than its physical volume; two groups of one name.
disk grown twin-a twin-b
lvm2 pvcreate $(of grown)
lvm2 vgcreate stretched $(of grown)
truncate -s 40M "$DIR/disks/grown"
losetup -c "${loop[grown]}"
for twin in twin-a twin-b; do
    all_before=$all all=${loop[$twin]}
    lvm2 pvcreate $(of "$twin")
    lvm2 vgcreate same $(of "$twin")
    all=$all_before
done

say pvs -o pv_name,pv_uuid,vg_uuid,vg_name > "$DIR/pvs"
say vgs -o vg_uuid,vg_name,vg_seqno,pv_count,vg_exported,vg_systemid,vg_autoactivation > "$DIR/vgs"
say lvs -a -o vg_uuid,lv_name,lv_uuid,lv_autoactivation,devices,metadata_devices,pool_lv,data_lv,metadata_lv > "$DIR/lvs"
for name in "${!loop[@]}"; do echo "${loop[$name]} $name"; done > "$DIR/loops"

# What lvm2 leaves in /run/lvm when all of them arrive one after another.
rm -rf /run/lvm/*
for name in "${!loop[@]}"; do
    command lvm pvscan --driverloaded n --cache --listvg --checkcomplete --vgonline \
        --autoactivation event "${loop[$name]}" >/dev/null
done
cp -r /run/lvm "$DIR/run"
