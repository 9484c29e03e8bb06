# Looks at paths as a service sees them. `look NUMBER WHAT...`: a PATH is told to be writable or not, `exec:PATH` whether
# programs can be executed there, `ls:`, `stat:`, `fs:`, `opts:` and `is:` what their names say, `prop` how mounts travel.
n=$1; shift
for what; do
    path=${what#*:}
    case $what in
        exec:*) opts=$(findmnt -nro OPTIONS -T "$path" | tail -n 1)
            case ,$opts, in *,noexec,*) said=noexec ;; *) said=exec ;; esac ;;
        ls:*) said=$(ls -A "$path" 2>&1 | paste -sd' ') ;;
        stat:*) said=$(stat -c '%a %F %U %s' "$path" 2>&1 | sed 's/ [0-9]*$//') ;;
        fs:*) said=$(stat -f -c %T "$path") ;;
        opts:*) said=$(findmnt -nro OPTIONS,FSTYPE --mountpoint "$path" | tail -n 1 | sed 's/size=[0-9]*k/size=some/; s/inode64//') ;;
        is:*) if ls -d "$path" >/dev/null 2>&1; then said=there; else said=not; fi ;;
        read:*) if head -c 0 "$path" 2>/dev/null; then said=read; else said=refused; fi ;;
        write:*) if (: >"$path") 2>/dev/null; then said=written; else said=refused; fi ;;
        send:*) if bash -c ": && echo x >/dev/udp/$path/9" 2>/dev/null; then said=sent; else said=refused; fi ;;
        host) said=$(readlink /proc/self/ns/uts | sed 's/[0-9][0-9]*/n/'); hostname other 2>/dev/null && said="$said changed" ;;
        prop) said=$(findmnt -nro PROPAGATION --mountpoint /) ;;
        *) if [ ! -e "$what" ]; then said=none; elif [ -w "$what" ]; then said=rw; else said=ro; fi ;;
    esac
    echo "$n $what: $said"
done
