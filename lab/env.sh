LAB=${LAB:-/tmp/lab}
# The unified tree: alone, or beside those of version 1.
if [ -z "$CGROOT" ]; then
  CGROOT=/sys/fs/cgroup
  [ ! -d /sys/fs/cgroup/unified ] || CGROOT=/sys/fs/cgroup/unified
fi
