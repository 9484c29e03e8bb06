#!/bin/sh
# stage.sh DESTDIR PREFIX PROGRAMS [PACKAGE...]
# Installs what packaging/files.txt says below DESTDIR: of the packages that are named, or of all but warrener-init,
# which changes what a machine can boot. PROGRAMS is the directory of the built programs.
# SYMBOLS=no leaves the symbols of programs out; else they lie in .debug beside them.
set -eu
# What a shell or one of our programs writes is for all to read, whatever the umask.
umask 022
destdir=$1 prefix=$2 programs=$3
shift 3
top=$(cd "$(dirname "$0")/.." && pwd)
table=$top/packaging/files.txt
# shellcheck disable=SC2046 # a list
[ $# -gt 0 ] || set -- $(awk '!/^#/ && NF && $1 != "warrener-init" && !seen[$1]++ { print $1 }' "$table")
wanted=" $* "

program() {
    case ${SYMBOLS:-yes} in
        yes) sh "$top/scripts/install-program.sh" "$programs/$1" "$2" ;;
        *) install -D -m 755 "$programs/$1" "$2/$1" && { strip --strip-all --remove-section=.comment "$2/$1" 2>/dev/null || true; } ;;
    esac
}

unit() {
    install -d "$2"
    sed -e "s|/usr/lib/warren/|$prefix/lib/warren/|" -e "s|/usr/bin/|$prefix/bin/|" "$top/$1" > "$2/${1##*/}"
}

agent_pages() {
    pages=$(mktemp -d)
    "$programs/warren-hosts" man "$pages"
    for section in 1 8; do
        install -D -m 644 -t "$1/man$section" "$pages"/*."$section"
    done
    rm -r "$pages"
}

completions() {
    install -d "$1/bash-completion/completions" "$1/zsh/vendor-completions" "$1/fish/vendor_completions.d"
    "$programs/warren" completion bash > "$1/bash-completion/completions/warren"
    "$programs/warren" completion zsh > "$1/zsh/vendor-completions/_warren"
    "$programs/warren" completion fish > "$1/fish/vendor_completions.d/warren.fish"
}

while read -r package kind destination source; do
    case $package in '' | '#'*) continue ;; esac
    case $wanted in *" $package "*) ;; *) continue ;; esac
    case $destination in
        /*) to=$destdir$destination ;;
        *) to=$destdir$prefix/$destination ;;
    esac
    case $kind in
        program) program "$source" "$to" ;;
        unit) unit "$source" "$to" ;;
        file) install -D -m 644 -t "$to" "$top/$source" ;;
        script) install -D -m 755 -t "$to" "$top/$source" ;;
        link) install -d "${to%/*}" && ln -sf "$source" "$to" ;;
        directory) install -d -m 755 "$to" ;;
        pages) install -d "$to" && "$programs/warren" man "$to" ;;
        agent-pages) agent_pages "$to" ;;
        completions) completions "$to" ;;
        *) echo "packaging/files.txt: no kind $kind" >&2 && exit 1 ;;
    esac
done < "$table"

for package in "$@"; do
    install -D -m 644 -t "$destdir$prefix/share/doc/$package" \
        "$top/LICENSE-MIT" "$top/LICENSE-APACHE" "$top/CHANGELOG.md"
done
