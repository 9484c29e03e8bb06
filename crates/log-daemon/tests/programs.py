"""Has nginx and PostgreSQL log what they log about errors, to /dev/log and to the stream socket. `NGINX` says
where nginx is when it is not in the path. Exit status 77 where neither is installed.
"""

import glob
import os
import pwd
import shutil
import socket
import subprocess
import sys
import urllib.error
import urllib.request

RUN = "/run/systemd/journal/"
PLACE = "/run/programs"
PORT = 18081
NGINX = """
daemon off; master_process off; pid %(place)s/nginx.pid;
error_log syslog:server=unix:%(run)sdev-log,tag=ngerr error;
events {}
http {
  access_log syslog:server=unix:%(run)sdev-log,facility=local7,tag=ngacc,severity=notice;
  client_body_temp_path %(place)s/body; proxy_temp_path %(place)s/proxy; fastcgi_temp_path %(place)s/fastcgi;
  uwsgi_temp_path %(place)s/uwsgi; scgi_temp_path %(place)s/scgi;
  server { listen 127.0.0.1:%(port)d; location / { return 200 ok; } location /no { root /nonexistent; } }
}
"""


def ready(path):
    while True:
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
                return probe.connect(path)
        except OSError:
            os.sched_yield()


def run_nginx(program):
    with open(PLACE + "/nginx.conf", "w") as file:
        file.write(NGINX % {"place": PLACE, "run": RUN, "port": PORT})
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    nginx = subprocess.Popen([program, "-c", PLACE + "/nginx.conf"], stderr=subprocess.DEVNULL)
    for path in ("/", "/no/such"):
        while True:
            try:
                urllib.request.urlopen("http://127.0.0.1:%d%s" % (PORT, path)).read()
            except urllib.error.HTTPError:
                pass
            except OSError:
                # It is on its way.
                os.sched_yield()
                continue
            break
    nginx.terminate()
    nginx.wait()


def run_postgres(directory):
    user = pwd.getpwnam("postgres")
    data = PLACE + "/postgres"
    os.mkdir(data)
    os.chown(data, user.pw_uid, user.pw_gid)
    own = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": [], "cwd": data, "stdin": subprocess.DEVNULL}
    subprocess.run([directory + "/initdb", "-N", "-D", data + "/db"], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, **own)
    command = ["systemd-cat", "-t", "pgout", "-p", "warning", directory + "/postgres", "-D", data + "/db", "-k", data]
    settings = {"listen_addresses": "", "log_destination": "syslog,stderr", "syslog_ident": "pgsys",
                "log_min_messages": "warning"}
    server = subprocess.Popen(command + ["--%s=%s" % setting for setting in settings.items()], **own)
    ready(data + "/.s.PGSQL.5432")
    for query in ("select nonsense", "do $$ begin raise warning 'line one\nline two'; end $$",
                  "select 1/0, '%s'" % ("long " * 400), "select 'gr\u00fc\u00dfe', no"):
        # While the server is starting it refuses.
        command = [directory + "/psql", "-h", data, "-d", "postgres"]
        while subprocess.run(command + ["-c", "select 1"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                             **own).returncode:
            os.sched_yield()
        subprocess.run(command + ["-c", query], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **own)
    server.terminate()
    server.wait()


def main():
    nginx = os.environ.get("NGINX") or shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin")
    postgres = sorted(glob.glob("/usr/lib/postgresql/*/bin"))
    if not nginx and not postgres:
        sys.exit(77)
    for name in ("dev-log", "socket", "stdout"):
        while not os.path.exists(RUN + name):
            os.sched_yield()
    os.mkdir(PLACE)
    os.chmod(PLACE, 0o755)
    if nginx:
        run_nginx(nginx)
    if postgres:
        run_postgres(postgres[-1])
    # When these are recorded, all is.
    for name, message in (("dev-log", b"<13>the last line"), ("socket", b"MESSAGE=the last message\n")):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as last:
            last.connect(RUN + name)
            last.send(message)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as last:
        last.connect(RUN + "stdout")
        last.sendall(b"last\n\n6\n1\n0\n0\n0\nthe last output\n")


main()
