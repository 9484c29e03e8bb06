# Three generations, to which the page goes back, and a change that is not in force.
for number in 1 2 3; do
    echo "[Unit]
Description=Web server, generation $number" > /run/systemd/system/other.service
    printf '[Service]\nExecStart=/bin/true\n' >> /run/systemd/system/other.service
    warren refresh --quiet
done
sed -i 's/generation 3/in another way/' /run/systemd/system/other.service
