# A directory of unit files.
mkdir DIR
cp web.service DIR
