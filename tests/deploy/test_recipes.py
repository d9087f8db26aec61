"""The other recipes in deploy/: their files can be read by what they are for, and their commands serve."""

import configparser
import ctypes
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from syncless.cli.arguments import parse
from syncless.server.status.options import StatusOptions
from tests.cli.test_systemd import Manager
from tests.deploy.recipes import DEPLOY, text
from tests.programs import free_port
from tests.waiting import eventually

APP = """
import os

def app(environ, start_response):
    start_response("200 OK", [])
    return [f"{os.getppid()} {environ['wsgi.url_scheme']}".encode()]
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "myproject").mkdir()
    (tmp_path / "myproject" / "__init__.py").touch()
    (tmp_path / "myproject" / "web.py").write_text(APP)
    return tmp_path


@pytest.fixture
def run(folder):
    """run(command, **variables) -> a process that is ended at the end; `syncless` is this one."""
    running = []
    (folder / "syncless").write_text(f'#!/bin/sh\nexec {sys.executable} -m syncless "$@"\n')
    (folder / "syncless").chmod(0o755)

    def begin(*command, **variables):
        environ = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", **variables}
        running.append(subprocess.Popen(command, cwd=folder, env=environ, stdout=subprocess.PIPE, text=True))
        return running[-1]

    yield begin
    for process in running:
        process.kill()
        process.wait()
        process.stdout.close()


def status_of(url, **fields):
    """0 if nobody answers."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=fields), timeout=60) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        with error:
            return error.code
    except OSError:
        return 0


def answers(url):
    return eventually(lambda: status_of(url) == 200, 60)


# -- systemd ------------------------------------------------------------------------------------------------


def unit(name):
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str
    parser.read_string(text(f"systemd/{name}"))
    return parser


def test_service_of_systemd_serves_on_its_socket_and_says_so(folder):
    """The test plays systemd: it passes the socket, and hears what the service says."""
    service = unit("app.service")["Service"]
    assert (service["Type"], service["ExecReload"]) == ("notify", "/bin/kill -HUP $MAINPID")
    words = shlex.split(service["ExecStart"])
    assert words[0].endswith("/bin/syncless")

    class Service(Manager):
        """Manager's, with the unit's command and a socket at descriptor 3."""

        def __init__(self, listener):
            self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self.sock.bind(str(folder / "notify"))
            self.sock.setblocking(False)
            self.messages = []
            start = (
                "import os, sys; os.dup2(int(sys.argv[1]), 3); os.environ['LISTEN_PID'] = str(os.getpid()); "
                "os.execv(sys.executable, [sys.executable, '-m', 'syncless', *sys.argv[2:]])"
            )
            self.process = subprocess.Popen(
                [sys.executable, "-c", start, str(listener.fileno()), *words[1:]],
                cwd=folder,
                env={**os.environ, "NOTIFY_SOCKET": str(folder / "notify"), "LISTEN_FDS": "1"},
                pass_fds=[listener.fileno()],
                stdout=subprocess.DEVNULL,
            )

    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        for _ in range(2):  # the second one stands for a restart: the socket has been open all the time
            with Service(listener) as manager:
                assert manager.hears("READY=1") and status_of(url) == 200
                manager.messages.clear()
                manager.process.send_signal(signal.SIGHUP)
                assert manager.hears("READY=1") and manager.messages[0][0] == "RELOADING=1"
                manager.process.terminate()
                assert manager.hears("STOPPING=1") and manager.process.wait(60) == 0
            os.unlink(folder / "notify")


def test_service_waits_for_the_end_of_requests():
    options = parse(shlex.split(unit("app.service")["Service"]["ExecStart"])[1:])
    seconds = dict(options.limits).get("stop_seconds", 30) + dict(options.limits).get("stop_delay_seconds", 0)
    assert float(unit("app.service")["Service"]["TimeoutStopSec"]) > seconds


def test_units_are_right_for_systemd(tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    service = text("systemd/app.service")
    command = unit("app.service")["Service"]["ExecStart"].split()[0]
    service = service.replace(command, sys.executable).replace("User=myproject", "User=daemon")
    (tmp_path / "app.service").write_text(service)
    (tmp_path / "app.socket").write_text(text("systemd/app.socket"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", tmp_path / "app.socket", tmp_path / "app.service"],
        capture_output=True,
        text=True,
    )
    ours = [line for line in done.stderr.splitlines() if "app." in line]
    assert done.returncode == 0 and not ours, done.stderr
    line = ["systemd-analyze", "security", "--offline=true", "--no-pager", tmp_path / "app.service"]
    told = subprocess.run(line, capture_output=True, text=True)
    if "exposure level" not in told.stdout:
        pytest.skip(f"this systemd-analyze cannot judge a file: {told.stderr}")
    assert float(re.search(r"exposure level for app\.service: ([\d.]+)", told.stdout)[1]) <= 3.0


SANDBOX = """
import ctypes, os, socket, sys

class Compare(ctypes.Structure):
    _fields_ = [("arg", ctypes.c_uint), ("op", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64)]

EQUAL, ALLOW, REFUSE = 4, 0x7FFF0000, 0x00050000 | 1  # 1: EPERM
calls, families = sys.argv[1].split(), sys.argv[2].split()
lib = ctypes.CDLL("libseccomp.so.2")
lib.seccomp_init.restype = ctypes.c_void_p
context = ctypes.c_void_p(lib.seccomp_init(REFUSE))
for name in calls:
    number = lib.seccomp_syscall_resolve_name(name.encode())
    if name != "socket" and number >= 0:
        assert lib.seccomp_rule_add(context, ALLOW, number, 0) == 0, name
for family in families:
    same = Compare(0, EQUAL, getattr(socket, family), 0)
    number = lib.seccomp_syscall_resolve_name(b"socket")
    assert lib.seccomp_rule_add_array(context, ALLOW, number, 1, ctypes.byref(same)) == 0
assert ctypes.CDLL(None).prctl(38, 1, 0, 0, 0) == 0  # no new privileges
assert lib.seccomp_load(context) == 0
os.execv(sys.argv[3], sys.argv[3:])
"""
BUSY = """
import os, socket, sqlite3, subprocess, tempfile, threading, time

def app(environ, start_response):
    thread = threading.Thread(target=time.sleep, args=(0.001,))
    thread.start()
    thread.join()
    socket.getaddrinfo("localhost", 80)
    with tempfile.NamedTemporaryFile() as file:
        sqlite3.connect(file.name).execute("create table t (x)")
    told = subprocess.run(["cat", "/proc/self/status"], capture_output=True, text=True).stdout
    try:
        refused = os.nice(0)
    except PermissionError:
        refused = "refused"
    start_response("200 OK", [])
    return [f"{told.partition('Seccomp:')[2].split()[0]} {refused}".encode()]
"""


def calls_of(names):
    """All system calls of the groups."""
    line = ["systemd-analyze", "syscall-filter", "--no-pager", *names]
    words = [row.split("#")[0].strip() for row in subprocess.check_output(line, text=True).splitlines()]
    found = {word for word in words if word and not word.startswith("@")}
    groups = {word for word in words if word.startswith("@")} - set(names)
    return found | (calls_of(sorted(groups)) if groups else set())


def test_service_works_with_the_system_calls_that_it_is_left(folder, run):
    """As far as this can be tried without systemd as process 1."""
    try:
        ctypes.CDLL("libseccomp.so.2")
    except OSError:
        pytest.skip("libseccomp is not installed")
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    (folder / "myproject" / "web.py").write_text(BUSY)
    rows = re.findall(r"^SystemCallFilter=(.*)$", text("systemd/app.service"), re.M)
    allowed = calls_of([rows[0]]) - calls_of(rows[1].lstrip("~").split())
    families = unit("app.service")["Service"]["RestrictAddressFamilies"]
    port, status = free_port(), free_port()
    words = shlex.split(unit("app.service")["Service"]["ExecStart"])[1:]
    words += ["--bind", f"127.0.0.1:{port}", "--status", f"127.0.0.1:{status}", "--log-level", "info"]
    line = [sys.executable, "-m", "syncless", *words, "--error-log", str(folder / "errors")]
    server = run(sys.executable, "-c", SANDBOX, " ".join(sorted(allowed)), families, *line)
    assert answers(f"http://127.0.0.1:{port}/")
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/") as answer:
        assert answer.read() == b"2 refused"  # it is filtered, and so is the application's nice()
    assert status_of(f"http://127.0.0.1:{status}/readyz") == 200

    def workers():
        with urllib.request.urlopen(f"http://127.0.0.1:{status}/status.json") as answer:
            told = json.loads(answer.read())["workers"]
        return {worker["pid"] for worker in told if worker["state"] == "ready"}

    assert eventually(lambda: len(workers()) == 4)
    before = workers()
    server.send_signal(signal.SIGHUP)
    assert eventually(lambda: len(workers()) == 4 and not workers() & before)
    assert status_of(f"http://127.0.0.1:{port}/") == 200
    server.terminate()
    assert server.wait(60) == 0
    assert "Traceback" not in (folder / "errors").read_text()


READ_ONLY = """
set -eu
here=$1; shift
cd "$here"
mkdir -p run state logs tmp
# RuntimeDirectory, StateDirectory, LogsDirectory
for own in run state logs; do mount --bind "$own" "$own"; done
mount -t tmpfs tmpfs tmp # PrivateTmp
# ProtectSystem=strict: all others but the kernel's
sed 's/ - .*//' /proc/self/mountinfo | while read -r _ _ _ _ mount _; do
    case $mount in
    /proc | /proc/* | /sys | /sys/* | /dev | /dev/*) ;;
    "$here"/run | "$here"/state | "$here"/logs | "$here"/tmp) ;;
    *) mount -o remount,bind,ro "$mount" || [ ! -d "$mount" ] ;;
    esac
done
exec setpriv --no-new-privs --bounding-set=-all --inh-caps=-all "$@"
"""
WRITER = """
import errno, os, tempfile

def app(environ, start_response):
    told = []
    for folder in (".", os.path.expanduser("~"), "run", "state", "logs", tempfile.gettempdir()):
        try:
            tempfile.NamedTemporaryFile(dir=folder).close()
            told.append("written")
        except OSError as error:
            told.append(errno.errorcode[error.errno])
    start_response("200 OK", [])
    return [" ".join(told).encode()]
"""


def test_service_works_on_a_system_that_it_can_only_read(folder, run):
    """With the mounts of the unit, in a name space of its own."""
    service = unit("app.service")["Service"]
    assert (service["ProtectSystem"], service["PrivateTmp"]) == ("strict", "yes")
    assert {"RuntimeDirectory", "StateDirectory", "LogsDirectory"} <= set(service)
    inside = ["unshare", "--mount", "--propagation", "private"]
    if not all(map(shutil.which, ("unshare", "setpriv"))) or subprocess.run([*inside, "true"]).returncode:
        pytest.skip("this process may make no mounts of its own: it needs unshare, setpriv and root")
    (folder / "myproject" / "web.py").write_text(WRITER)
    port = free_port()
    words = [
        *shlex.split(service["ExecStart"])[1:],
        "--bind",
        f"127.0.0.1:{port}",
        "--status",
        "unix:run/status",
    ]
    words += ["--pid-file", "run/pid", "--error-log", "logs/errors"]
    server = run(
        *inside, "sh", "-c", READ_ONLY, "sh", str(folder), sys.executable, "-m", "syncless", *words,
        TMPDIR=str(folder / "tmp"), PYTHONPATH=str(DEPLOY.parent),
    )  # fmt: skip
    url = f"http://127.0.0.1:{port}/"
    assert answers(url)
    for _ in range(2):
        with urllib.request.urlopen(url) as answer:
            assert answer.read() == b"EROFS EROFS written written written written"
        os.kill(int((folder / "run" / "pid").read_text()), signal.SIGHUP)
        assert eventually(lambda: status_of(url) == 200)
    server.terminate()
    assert server.wait(60) == 0
    assert "Traceback" not in (folder / "logs" / "errors").read_text()


# -- Docker -------------------------------------------------------------------------------------------------


def dockerfile():
    """(instruction, text) of each."""
    lines = re.sub(r"\\\n\s*", " ", re.sub(r"^#.*\n", "", text("docker/Dockerfile"), flags=re.M))
    return [tuple(line.split(" ", 1)) for line in lines.splitlines() if line]


def test_image_runs_the_server_and_its_health_check(folder, run):
    instructions = dockerfile()
    port, status = free_port(), free_port()

    def here(words):
        changes = {"0.0.0.0:8000": f"127.0.0.1:{port}", "127.0.0.1:9100": f"127.0.0.1:{status}"}
        for old, new in changes.items():
            words = [word.replace(old, new) for word in words]
        return words

    command = json.loads(dict(instructions)["CMD"])
    check = json.loads(dict(instructions)["HEALTHCHECK"].partition("CMD ")[2])
    assert check[0] == "python" and command[0] == "syncless"

    def healthy():
        return subprocess.run([sys.executable, *here(check)[1:]], stderr=subprocess.DEVNULL).returncode == 0

    assert not healthy()
    server = run(*here(command))
    assert answers(f"http://127.0.0.1:{port}/") and healthy()
    server.terminate()
    assert server.wait(60) == 0 and not healthy()


def test_dockerfile_has_known_instructions_and_no_root():
    instructions = dockerfile()
    known = "FROM RUN COPY WORKDIR ENV USER EXPOSE HEALTHCHECK CMD".split()
    assert {name for name, _ in instructions} <= set(known)
    names = [name for name, _ in instructions]
    assert instructions[names.index("USER")][1] == "1000" and names.index("USER") < names.index("CMD")
    ports = dict(instructions)["EXPOSE"].split()
    options = parse(json.loads(dict(instructions)["CMD"])[1:])
    assert [options.bind[0].rpartition(":")[2], options.status.rpartition(":")[2]] == ports


def checked(tool, *arguments):
    """By the tool that reads such files, or one that knows what that would say."""
    found = shutil.which(tool, path=f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}")
    if found is None:
        pytest.skip(f"{tool} is not installed: pip install --group lint")
    done = subprocess.run([found, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_dockerfile_has_no_fault_that_hadolint_knows():
    checked("hadolint", "--no-color", DEPLOY / "docker" / "Dockerfile")


def test_compose_file_has_the_form_of_one():
    checked("check-jsonschema", "--builtin-schema", "vendor.compose-spec", DEPLOY / "docker" / "compose.yaml")


def test_manifests_have_the_form_of_their_kinds():
    checked("kubernetes-validate", "--strict", DEPLOY / "kubernetes" / "app.yaml")


def test_image_takes_the_wheel_of_a_checkout_and_the_library_of_http_2():
    instructions = dockerfile()
    last = max(number for number, (name, _) in enumerate(instructions) if name == "FROM")
    build, image = instructions[:last], instructions[last:]
    installs = next(
        number for number, (_, line) in enumerate(build) if " install " in line and "/pip" in line
    )
    assert "--find-links dist " in build[installs][1] and ("COPY", "dist/ dist/") in build[:installs]
    assert any("libnghttp2-14" in line for name, line in image if name == "RUN")


def documents(name):
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    return list(yaml.safe_load_all(text(name)))


def test_compose_file_builds_what_there_is():
    (compose,) = documents("docker/compose.yaml")
    app = compose["services"]["app"]
    context = (DEPLOY / "docker" / app["build"]["context"]).resolve()
    assert (context / app["build"]["dockerfile"]).samefile(DEPLOY / "docker" / "Dockerfile")
    assert app["ports"] == ["8000:8000"] and int(app["stop_grace_period"].rstrip("s")) > 30
    options = json.loads(dict(dockerfile())["CMD"])[1:]
    with pytest.MonkeyPatch.context() as patch:
        for name, value in app["environment"].items():
            patch.setenv(name, value)
        assert dict(parse(options).limits) == {"request_seconds": 60}


# -- Kubernetes ---------------------------------------------------------------------------------------------


def pod():
    deployment = next(each for each in documents("kubernetes/app.yaml") if each["kind"] == "Deployment")
    return deployment["spec"]["template"]["spec"]


def test_manifests_belong_together():
    found = {each["kind"]: each for each in documents("kubernetes/app.yaml")}
    assert set(found) == {"Deployment", "Service", "PodDisruptionBudget"}
    labels = found["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert found["Deployment"]["spec"]["selector"]["matchLabels"] == labels
    assert found["Service"]["spec"]["selector"] == labels
    assert found["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
    (container,) = pod()["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    options = parse(container["args"][1:])
    assert ports == {
        "http": int(options.bind[0].rpartition(":")[2]),
        "health": int(options.health.rpartition(":")[2]),
    }
    assert not options.status_public and StatusOptions.of(options.status), "all in the cluster could see it"
    assert found["Service"]["spec"]["ports"][0]["targetPort"] in ports
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"]["port"] == "health"


def test_pod_has_time_to_stop():
    (container,) = pod()["containers"]
    limits = dict(parse(container["args"][1:]).limits)
    ready = container["readinessProbe"]
    assert limits["stop_delay_seconds"] > 2 * ready["periodSeconds"] * ready["failureThreshold"]
    assert pod()["terminationGracePeriodSeconds"] > limits["stop_delay_seconds"] + 30


def test_pod_is_ready_then_not_ready_and_serves_on_until_it_stops(run):
    (container,) = pod()["containers"]
    port, status = free_port(), free_port()
    changes = {
        "--workers=auto": "--workers=2",
        "--bind=0.0.0.0:8000": f"--bind=127.0.0.1:{port}",
        "--health=0.0.0.0:9100": f"--health=127.0.0.1:{status}",
        "--status=127.0.0.1:9101": "--status=127.0.0.1:0",
    }
    assert changes.keys() <= set(container["args"])
    probes = {
        name: f"http://127.0.0.1:{status}{container[name]['httpGet']['path']}"
        for name in ("startupProbe", "readinessProbe", "livenessProbe")
    }
    server = run(*(changes.get(word, word) for word in container["args"]))
    assert answers(probes["startupProbe"])
    assert status_of(probes["readinessProbe"]) == status_of(probes["livenessProbe"]) == 200
    assert status_of(f"http://127.0.0.1:{status}/status.json") == 404
    server.terminate()
    assert eventually(lambda: status_of(probes["readinessProbe"]) == 503)
    assert status_of(probes["livenessProbe"]) == 200 and status_of(f"http://127.0.0.1:{port}/") == 200
    server.terminate()  # does not wait for the delay
    assert server.wait(60) == 0


# -- a Procfile ---------------------------------------------------------------------------------------------


def test_procfile_follows_the_platform(run):
    name, _, command = text("Procfile").strip().partition(": ")
    port = free_port()
    server = run("sh", "-c", f"exec {command}", PORT=str(port), WEB_CONCURRENCY="2")
    url = f"http://127.0.0.1:{port}/"
    assert name == "web" and answers(url)
    with urllib.request.urlopen(url) as answer:
        assert answer.read().decode() == f"{server.pid} http"  # a worker of this process answers
    server.terminate()
    assert server.wait(60) == 0


def test_each_recipe_is_in_the_list():
    recipes = {str(path.relative_to(DEPLOY)) for path in DEPLOY.rglob("*") if path.is_file()}
    page = (DEPLOY.parent / "docs" / "howto" / "deploying.md").read_text()
    linked = set(re.findall(r"\]\(../../deploy/([^)]+)\)", page))
    assert recipes - {"README.md"} == linked
