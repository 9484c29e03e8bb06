# A reload, which is recorded when it is over.
printf '[Service]\nExecStart=/bin/true\n' > /run/systemd/system/other.service
warren refresh --quiet
until warren chart --list | grep -q reload; do :; done
