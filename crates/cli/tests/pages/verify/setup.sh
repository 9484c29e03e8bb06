# A directory of unit files with a drop-in.
mkdir -p units/web.service.d
cp web.service units
printf '[Service]\nMemoryMax=1G\n' > units/web.service.d/limits.conf
