#!/bin/sh
# install-program.sh PROGRAM DIRECTORY
# Installs a program without its symbols. They go to DIRECTORY/.debug/NAME.debug, where gdb, perf and the program's
# own back-traces look for them by the link that stays in the program.
set -eu
name=$(basename "$1")
install -d "$2" "$2/.debug"
debug=$2/.debug/$name.debug
rm -f "$2/$name.part"
objcopy --only-keep-debug "$1" "$debug"
chmod 644 "$debug"
objcopy --strip-all --add-gnu-debuglink="$debug" "$1" "$2/$name.part"
chmod 755 "$2/$name.part"
# At once: the program may be running.
mv -f "$2/$name.part" "$2/$name"
