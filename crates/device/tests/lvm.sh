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

# A boot loader's room, large alignments, labels in other sectors, metadata of other sizes.
disk boot aligned sector0 sector2 large both
lvm2 pvcreate --bootloaderareasize 2m $(of boot)
lvm2 pvcreate --dataalignment 8m --dataalignmentoffset 512k $(of aligned)
lvm2 pvcreate --labelsector 0 $(of sector0)
lvm2 pvcreate --labelsector 2 $(of sector2)
lvm2 pvcreate --metadatasize 4m $(of large)
lvm2 pvcreate --metadatacopies 2 --metadatasize 256k --bootloaderareasize 1m $(of both)
lvm2 vgcreate odd $(of boot aligned large both)
lvm2 vgcreate ring-two $(of sector0 sector2)
create -l 100%FREE -n all odd

# One copy of the metadata in all: two of three have areas that are not used.
disk few0 few1 few2
lvm2 pvcreate $(of few0 few1 few2)
lvm2 vgcreate --vgmetadatacopies 1 few $(of few0 few1 few2)
create -i 3 -l 3 -n thin few

# Groups with a past: renamed, split, merged, extended, reduced, removed and made again.
disk past0 past1 past2 past3 past4 past5 unused-reduced again
lvm2 pvcreate $(of past0 past1 past2 past3 past4 past5 unused-reduced again)
lvm2 vgcreate before $(of past0 past1 past2 past3 unused-reduced)
create -L 4M -n one before "${loop[past0]}"
create -L 4M -n two before "${loop[past2]}"
lvm2 vgrename before after
lvm2 vgsplit after part $(of past2 past3)
lvm2 vgcreate more $(of past4)
create -L 4M -n three more
lvm2 vgmerge after more
lvm2 vgextend after $(of past5)
lvm2 vgreduce after $(of unused-reduced)
lvm2 lvextend -L 8M after/one
lvm2 lvrename after/three drei
lvm2 lvremove -y part/two
lvm2 vgcreate gone $(of again)
lvm2 vgremove -y gone
lvm2 pvremove -y $(of again)
lvm2 pvcreate -ff -y $(of again)
lvm2 vgcreate -s 1m third $(of again)

# Many small groups.
for i in $(seq 6); do
    disk "many$i"
    lvm2 vgcreate "many$i" $(of "many$i")
done

# What cannot be created without device-mapper: its metadata can.
disk raid0 raid1
lvm2 pvcreate $(of raid0 raid1)
lvm2 vgcreate -s 512k --alloc anywhere layers $(of raid0 raid1)
create -l 1 -n first layers
lvm2 vgcfgbackup -f "$DIR/etc/layers" layers
python3 - "$DIR/etc/layers" <<'P'
import re, sys
path = sys.argv[1]
text = open(path).read()
start = text.index("\t\tfirst {")
end = text.index("\n\t\t}\n", start) + len("\n\t\t}\n")
first = text[start:end]
volumes = [first]
def volume(name, body="", visible=True):
    """One more like the first, with this segment, an identifier and an extent of its own."""
    n = len(volumes)
    new = first.replace("first {", name + " {").replace('["pv0", 0]', f'["pv{n % 2}", {n // 2}]')
    new = re.sub(r'stripes = \[\s*"pv0", 0\s*\]', f'stripes = [ "pv{n % 2}", {n // 2} ]', new)
    new = re.sub(r'id = "......', f'id = "{n:06}', new)
    if not visible:
        new = new.replace(', "VISIBLE"', "")
    if body:
        new = re.sub(r'type = "striped".*?\]', body, new, flags=re.S)
    volumes.append(new)
def raid(name, kind, count):
    for i in range(count):
        volume(f"{name}_rmeta_{i}", visible=False)
        volume(f"{name}_rimage_{i}", visible=False)
    legs = ", ".join(f'"{name}_rmeta_{i}", "{name}_rimage_{i}"' for i in range(count))
    stripes = "" if kind == "raid1" else "stripe_size = 128\n"
    volume(name, f'type = "{kind}"\ndevice_count = {count}\n{stripes}region_size = 4096\nraids = [{legs}]')
def hidden(*names):
    for name in names:
        volume(name, visible=False)
raid("one", "raid1", 2)
raid("five", "raid5_ls", 3)
raid("six", "raid6_zr", 5)
raid("ten", "raid10", 4)
hidden("p_tdata", "p_tmeta", "q_cdata", "q_cmeta", "c_corig", "m_mimage_0", "m_mimage_1", "m_mlog")
volume("p", 'type = "thin-pool"\nmetadata = "p_tmeta"\npool = "p_tdata"\ntransaction_id = 1\n'
    'chunk_size = 128\ndiscards = "passdown"\nzero_new_blocks = 1')
volume("t", 'type = "thin"\nthin_pool = "p"\ntransaction_id = 0\ndevice_id = 1')
volume("q", 'type = "cache-pool"\ndata = "q_cdata"\nmetadata = "q_cmeta"\nchunk_size = 128\n'
    'cache_mode = "writethrough"\npolicy = "smq"\nmetadata_format = 2', visible=False)
volume("c", 'type = "cache"\ncache_pool = "q"\norigin = "c_corig"')
volume("m", 'type = "mirror"\nmirror_count = 2\nmirror_log = "m_mlog"\nregion_size = 1024\n'
    'mirrors = ["m_mimage_0", 0, "m_mimage_1", 0]')
volume("snap")
volume("o")
volume("snapshot0", 'type = "snapshot"\nchunk_size = 8\norigin = "o"\ncow_store = "snap"')
hidden("merging")
volume("merged")
volume("snapshot1", 'type = "snapshot"\nchunk_size = 8\norigin = "merged"\nmerging_store = "merging"')
hidden("w_wcorig", "w_cvol")
hidden("vp_vdata")
volume("vp", 'type = "vdo-pool"\ndata = "vp_vdata"\nheader_size = 1024\nvirtual_extents = 1\n'
    'use_compression = 1\nuse_deduplication = 1\nuse_metadata_hints = 1\nminimum_io_size = 4096\n'
    'block_map_cache_size_mb = 128\nblock_map_era_length = 16380\nuse_sparse_index = 0\n'
    'index_memory_size_mb = 256\nslab_size_mb = 2048\nmax_discard = 1\nack_threads = 1\nbio_threads = 4\n'
    'bio_rotation = 64\ncpu_threads = 2\nhash_zone_threads = 1\nlogical_threads = 1\n'
    'physical_threads = 1\nwrite_policy = "auto"', visible=False)
volume("v", 'type = "vdo"\nvdo_pool = "vp"\nvdo_offset = 0')
volume("cv_cvol", visible=False)
volumes[-1] = volumes[-1].replace('status = ["READ", "WRITE"]', 'status = ["READ", "WRITE", "CACHE_VOL"]')
hidden("cv_corig")
volume("cv", 'type = "cache"\ncache_pool = "cv_cvol"\norigin = "cv_corig"\nmetadata_format = 2\n'
    'chunk_size = 128\ncache_mode = "writethrough"\npolicy = "smq"\nmetadata_start = 0\n'
    'metadata_len = 1024\ndata_start = 1024\ndata_len = 512')
volume("outside")
volumes[-1] = volumes[-1].replace('"WRITE", ', "")
volume("inside", 'type = "thin"\nthin_pool = "p"\ntransaction_id = 0\ndevice_id = 3\nexternal_origin = "outside"')
volume("w", 'type = "writecache"\norigin = "w_wcorig"\nwritecache = "w_cvol"\n'
    'writecache_block_size = 4096')
volume("thinsnap", 'type = "thin"\nthin_pool = "p"\ntransaction_id = 1\ndevice_id = 2\norigin = "t"')
volume("nothing", 'type = "error"')
volume("zeroes", 'type = "zero"')
# Extents that are half way from the first disk to the second.
volume("pvmove0", 'type = "mirror"\nmirror_count = 2\nextents_moved = 1\nregion_size = 1024\n'
    'mirrors = ["pv0", 60, "pv1", 60]', visible=False)
volumes[-1] = volumes[-1].replace('status = ["READ", "WRITE"]', 'status = ["READ", "WRITE", "PVMOVE", "LOCKED"]')
volume("moving", 'type = "striped"\nstripe_count = 1\nstripes = ["pvmove0", 0]')
volumes[-1] = volumes[-1].replace('"VISIBLE"', '"VISIBLE", "LOCKED"')
open(path, "w").write(text[:start] + "\n".join(volumes) + text[end:])
P
lvm2 vgcfgrestore --force -f "$DIR/etc/layers" layers

# A disk that was away while its group was changed, and came back.
disk back0 back1
lvm2 pvcreate $(of back0 back1)
lvm2 vgcreate back $(of back0 back1)
create -l 1 -n here back "${loop[back0]}"
create -l 1 -n there back "${loop[back1]}"
create -i 2 -l 2 -n over back
all_before=$all all=${loop[back0]}
lvm2 vgck --updatemetadata back
all=$all_before

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
say lvs -a -o vg_uuid,lv_name,lv_uuid,lv_autoactivation,devices,metadata_devices,pool_lv,data_lv,metadata_lv,mirror_log,origin > "$DIR/lvs"
# What can run when one of two disks is there.
for name in raid0 raid1; do
    all_before=$all all=${loop[$name]}
    say lvs -o lv_name,lv_attr,lv_health_status layers 2>/dev/null > "$DIR/health-$name" || true
    all=$all_before
done
for name in "${!loop[@]}"; do echo "${loop[$name]} $name"; done > "$DIR/loops"

say lvs -o lv_name,lv_attr,lv_health_status back > "$DIR/health-back"

# What lvm2 leaves in /run/lvm when all of them arrive one after another.
rm -rf /run/lvm/*
for name in "${!loop[@]}"; do
    command lvm pvscan --driverloaded n --cache --listvg --checkcomplete --vgonline \
        --autoactivation event "${loop[$name]}" >/dev/null
done
cp -r /run/lvm "$DIR/run"
