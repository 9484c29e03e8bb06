# Who a service runs as, without the numbers of users that are made for a run. `who NUMBER DIRECTORY...`: also whether it
# can write to directories, and has what is in them.
n=$1; shift
kind() { if [ "$1" -ge 61184 ] && [ "$1" -le 65519 ]; then echo made; else echo "$1"; fi; }
uid=$(id -u); gid=$(id -g)
same=other; [ "$uid" = "$gid" ] && same=same
echo "$n user $(kind "$uid") group $(kind "$gid") $same"
echo "$n groups $(for g in $(id -G); do kind "$g"; done | sort | paste -sd' ')"
echo "$n USER=$USER LOGNAME=$LOGNAME HOME=${HOME-none} SHELL=${SHELL-none}"
echo "$n $(env | grep -E '^(STATE|CACHE|LOGS|RUNTIME)_DIRECTORY=' | sort | paste -sd' ')"
for path; do
    touch "$path/written" 2>/dev/null && echo "$n $path: written"
    owner=other; [ "$(stat -L -c %u "$path")" = "$uid" ] && owner=own
    echo "$n $path: $owner $(stat -L -c %a "$path") $(ls -A "$path" | paste -sd' ')"
done
