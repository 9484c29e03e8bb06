# A directory that will be an image.
mkdir -p image/etc/systemd/system
cp web.service image/etc/systemd/system
