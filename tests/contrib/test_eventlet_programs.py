"""Programs and libraries that were written for eventlet, unchanged, under `syncless run`."""

import os
import subprocess
import textwrap

import pytest

from tests.contrib.commands import Command, output_of, where
from tests.programs import free_port

BEGIN = """
import eventlet; eventlet.monkey_patch()
assert eventlet.__name__ == "syncless.eventlet"
import socket, time
def free_port():
    with socket.create_server(("127.0.0.1", 0)) as found:
        return found.getsockname()[1]
"""

PROGRAMS = {
    "nameko": """
        import urllib.request
        from nameko.containers import ServiceContainer
        from nameko.web.handlers import http
        present = most = 0
        class Service:
            name = "doubles"
            @http("GET", "/double/<int:number>")
            def double(self, request, number):
                global present, most
                present += 1
                most = max(most, present)
                time.sleep(0.1)
                present -= 1
                return str(number * 2)
        address = f"127.0.0.1:{free_port()}"
        container = ServiceContainer(Service, config={"WEB_SERVER_ADDRESS": address})
        container.start()
        def ask(number):
            answer = urllib.request.urlopen(f"http://{address}/double/{number}").read()
            return int(answer) == number * 2
        answers = list(eventlet.GreenPool(40).imap(ask, range(40)))
        assert most > 1
        container.stop()
        print(sum(answers))
    """,
    "oslo_service": """
        import os, signal
        from oslo_config import cfg
        from oslo_service import loopingcall, service
        ticks, looks = [], []
        class Ticks(service.Service):
            def start(self):
                super().start()
                self.tg.add_timer(0.01, lambda: ticks.append(time.sleep(0.001)))
                self.tg.add_thread(self.end)
            def end(self):
                while len(ticks) < 20:
                    eventlet.sleep(0.001)
                os.kill(os.getpid(), signal.SIGTERM)
        launcher = service.launch(cfg.ConfigOpts(), Ticks(), restart_method="reload")
        launcher.wait()
        def look():
            looks.append(1)
            if len(looks) == 20:
                raise loopingcall.LoopingCallDone("done")
        assert loopingcall.FixedIntervalLoopingCall(look).start(0.001).wait() == "done"
        print(len(ticks[:20]) + len(looks))
    """,
    "oslo_messaging": """
        import oslo_messaging
        from oslo_config import cfg
        present = most = 0
        class Service:
            def double(self, context, number):
                global present, most
                present += 1
                most = max(most, present)
                time.sleep(0.1)
                present -= 1
                return number * 2
        cfg.CONF([])
        bus = oslo_messaging.get_rpc_transport(cfg.CONF, "kombu+memory:////")
        target = oslo_messaging.Target(topic="doubles", server="here")
        server = oslo_messaging.get_rpc_server(bus, target, [Service()], executor="eventlet")
        server.start()
        client = oslo_messaging.get_rpc_client(bus, oslo_messaging.Target(topic="doubles"))
        def ask(number):
            return client.call({}, "double", number=number) == number * 2
        answers = list(eventlet.GreenPool(40).imap(ask, range(40)))
        assert most > 1
        server.stop()
        server.wait()
        print(sum(answers))
    """,
    "os_ken": """
        from os_ken.lib import hub
        queue = hub.Queue(5)
        def produce():
            for number in range(40):
                queue.put(number)
                hub.sleep(0)
        def serve(sock, address):
            sock.sendall(sock.recv(10).upper())
            sock.close()
        server = hub.StreamServer(("127.0.0.1", 0), serve)
        threads = [hub.spawn(produce), hub.spawn(server.serve_forever)]
        got = [queue.get() for _ in range(40)]
        hub.joinall(threads[:1])
        client = hub.StreamClient(server.server.getsockname()[:2]).connect()
        client.sendall(b"said")
        assert client.recv(10) == b"SAID" and got == list(range(40))
        try:
            with hub.Timeout(0.01):
                hub.Event().wait()
        except hub.Timeout:
            print(len(got))
        hub.kill(threads[1])
    """,
}
"""The module of a library -> a program that prints 40."""


@pytest.mark.parametrize("library", PROGRAMS)
def test_library_for_eventlet_gives_all_answers(tmp_path, library):
    code = BEGIN + textwrap.dedent(PROGRAMS[library])
    assert output_of(tmp_path, code, PYTHONPATH=where(library), OSKEN_HUB_TYPE="eventlet") == "40\n"


CALLS = """
from nameko.containers import ServiceContainer
from nameko.rpc import rpc
from nameko.standalone.rpc import ClusterRpcProxy
present = most = 0
class Service:
    name = "doubles"
    @rpc
    def double(self, number):
        global present, most
        present += 1
        most = max(most, present)
        time.sleep(0.1)
        present -= 1
        return number * 2
config = {"AMQP_URI": URI, "max_workers": 40}
container = ServiceContainer(Service, config=config)
container.start()
with ClusterRpcProxy(config) as cluster:
    calls = [cluster.doubles.double.call_async(number) for number in range(40)]
    answers = [call.result() == number * 2 for number, call in enumerate(calls)]
assert most > 1
container.stop()
print(sum(answers))
"""


@pytest.fixture
def folder_of_nameko():
    return where("nameko")


@pytest.fixture
def rabbitmq(tmp_path):
    """The address of a server of its own."""
    program = "/usr/lib/rabbitmq/bin/rabbitmq-server"  # the one in the PATH serves from /var/lib
    if not os.path.exists(program):
        pytest.skip("rabbitmq-server is not installed")
    port, distribution, mapper = (free_port() for _ in range(3))
    variables = {
        "HOME": str(tmp_path),  # for its cookie
        "ERL_EPMD_PORT": str(mapper),
        "RABBITMQ_NODENAME": "test@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(distribution),
        "RABBITMQ_MNESIA_BASE": str(tmp_path / "mnesia"),
        "RABBITMQ_LOG_BASE": str(tmp_path / "log"),
    }
    server = Command(tmp_path, [program], variables)
    try:
        server.says("broker... completed")
        yield f"amqp://guest:guest@127.0.0.1:{port}"
    finally:
        server.end()
        subprocess.run(["epmd", "-kill"], env={**os.environ, **variables}, capture_output=True, timeout=60)


def test_calls_of_nameko_over_rabbitmq(tmp_path, folder_of_nameko, rabbitmq):
    assert output_of(tmp_path, f"{BEGIN}URI = {rabbitmq!r}\n{CALLS}", PYTHONPATH=folder_of_nameko) == "40\n"
