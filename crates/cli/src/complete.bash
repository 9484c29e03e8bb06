
# Names of units and machines, which the program is asked for; all else is as above. What is typed may have characters at
# which bash begins a new word (COMP_WORDBREAKS): what is before them is there already.
_warren_with_names() {
    _warren "$@"
    local line=${COMP_LINE:0:COMP_POINT} typed names name breaks=${COMP_WORDBREAKS//[^@:=]/}
    local -a words
    read -ra words <<<"$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    while (( ${#words[@]} > 1 )) && [[ ${words[0]} != "$1" ]]; do words=("${words[@]:1}"); done
    typed=${words[${#words[@]}-1]//\\\\/\\}
    words[${#words[@]}-1]=$typed
    names=$("$1" complete-words -- "${words[@]:1}" 2>/dev/null)
    [[ -n $names ]] || return 0
    [[ -n $breaks ]] && typed=${typed%"${typed##*[$breaks]}"} || typed=
    COMPREPLY=()
    while read -r name; do
        printf -v name %q "${name#"$typed"}"
        COMPREPLY+=("$name")
    done <<<"$names"
}
complete -F _warren_with_names -o bashdefault -o default warren
