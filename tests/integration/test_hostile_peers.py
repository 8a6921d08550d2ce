"""Strangers on the control and data ports: refused, counted, and nobody else notices (R3, R6)."""

import random
import socket
import struct
import subprocess
import time

import pytest

from support import http_api
from support.cluster import Cluster, completion
from support.process import Process, wait_until
from support.stranger import (ACCEPTED, CANCEL, COMMIT, HEARTBEAT, HELLO, HELLO_REFUSED, PREFILL,
                              PREFILL_NODE, RESERVE, RESUME, GoodClient, Stranger, closes, connect,
                              key, message, prefill, reserve)
from support.wire import FIXED64, HELLO_ACK


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("peers"),
                 worker_options={"cache_tokens": 4096, "transports": "ucx"}) as running:
        yield running
        assert all(process.running for process in running.processes)
        running.wait_baseline()


@pytest.fixture(params=["prefill", "decode"])
def worker(request, cluster) -> Process:
    return getattr(cluster, request.param)[0]


def dropped(worker: Process) -> float:
    return sum(worker.metrics().by("baton_control_dropped_total", "reason").values())


def log_lines(worker: Process) -> int:
    return worker.log.read_bytes().count(b"\n")


def test_r6_ten_thousand_malformed_frames_disturb_nobody(cluster, worker):
    chance = random.Random(1)
    before, lines = dropped(worker), log_lines(worker)
    with GoodClient(cluster), Stranger(worker.announced["control"]) as peer:
        assert peer.hello() == HELLO_ACK
        for index in range(10_000):
            body = chance.randbytes(chance.randrange(40))
            if index % 2:
                body = message((1, peer.epoch, FIXED64), (2, peer.peer_epoch, FIXED64),
                               (chance.randrange(10, 40), body))
            peer.payload(body)
        wait_until(lambda: dropped(worker) - before > 9_000, "the frames are counted")
    assert log_lines(worker) - lines < 50, "a stranger writes our log"


def test_a_second_hello_ends_its_connection_and_nothing_else(cluster, worker):
    with GoodClient(cluster):
        with Stranger(worker.announced["control"], "twice") as peer:
            assert peer.hello() == HELLO_ACK
            peer.send(HELLO, message((1, 1), (2, 1), (3, b"other")), epoch=999)
            assert closes(peer.socket)
        with Stranger(worker.announced["control"], "twice") as peer:
            assert peer.hello() == HELLO_ACK
    assert worker.running


def test_hellos_of_another_version_role_or_life_are_refused(cluster, worker):
    with Stranger(worker.announced["control"]) as peer:
        assert peer.hello(version=99) == HELLO_REFUSED
    with Stranger(worker.announced["control"]) as peer:
        assert peer.hello(role=PREFILL_NODE) == HELLO_REFUSED  # without our fingerprint
    with Stranger(worker.announced["control"], "r0") as peer:
        assert peer.hello() == HELLO_REFUSED, "the name of a live router was given away"


@pytest.mark.parametrize("data", [
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00", b"\xff" * 64,
    struct.pack(">I", (1 << 20) + 1), b"\0" * 4096, b""], ids=repr)
def test_sec_15_what_is_not_ours_is_closed_on_internal_ports(cluster, worker, data):
    # A port of UCX itself waits until a greeting of its own could be whole.
    ports = [worker.announced["control"], *(data_ports(worker) if len(data) > 16 else [])]
    with GoodClient(cluster):
        for address in ports:
            with connect(address) as peer:
                peer.sendall(data)
                assert closes(peer), address


def data_ports(worker: Process) -> list[str]:
    listed = subprocess.run(["ss", "-ltnpH"], capture_output=True, text=True, check=True).stdout
    ports = [line.split()[3] for line in listed.splitlines() if f"pid={worker.pid}," in line]
    return [port for port in ports
            if port not in (worker.announced["control"], worker.announced["admin"])]


def test_a_crowd_of_silent_connections_does_not_keep_a_peer_out(cluster, worker):
    crowd = [connect(worker.announced["control"]) for _ in range(200)]
    with Stranger(worker.announced["control"], "late") as peer:
        assert peer.hello() == HELLO_ACK
    for each in crowd:
        each.close()


def test_r3_wild_numbers_are_refused_and_hold_nothing(cluster, worker):
    wild = (0, -1, 1 << 62, (1 << 63) - 1, -(1 << 63), 10**15)
    with GoodClient(cluster), Stranger(worker.announced["control"], "wild") as peer:
        assert peer.hello() == HELLO_ACK
        for number, value in enumerate(wild, 100):
            peer.send(HEARTBEAT, message((1, value)))
            peer.send(RESUME, message((1, key()), (2, value)))
            for kind, make in ((RESERVE, reserve), (PREFILL, prefill)):
                peer.send(kind, make(number, lease_ms=value))
                peer.send(kind, make(number + 100, deadline_ms=value))
        for number, ids in enumerate(([-1], [10**9], [49152], [0] * 9000), 300):
            peer.send(RESERVE, reserve(number, ids=ids))
            peer.send(PREFILL, prefill(number, ids=ids))
        peer.send(HEARTBEAT, message((1, 10**15)))
        time.sleep(0.5)
    # Its last heartbeat asked for a lease of 30 000 years.
    cluster.wait_baseline()


def test_floods_of_control_messages_leave_the_others_alone(cluster, worker):
    bodies = {CANCEL: key(), ACCEPTED: key(),
              COMMIT: message((1, key()), (4, b"\0" * 32)), RESERVE: reserve(1)}
    with GoodClient(cluster):
        for kind, body in bodies.items():
            with Stranger(worker.announced["control"], f"flood-{kind}") as peer:
                assert peer.hello() == HELLO_ACK
                try:
                    for _ in range(8_000):
                        peer.send(kind, body)
                except OSError:
                    pass  # it reads no answers: its outbox overflowed there
    assert worker.running
    cluster.wait_baseline()


def another_router(cluster, node: str, decode: list[str]) -> Process:
    options = {"listen": "127.0.0.1:0", "prefill": [cluster.prefill[0].announced["control"]],
               "decode": decode}
    return Process("baton-router", node, cluster.folder, options)


def test_a_second_worker_of_one_name_is_not_used(cluster, tmp_path):
    first = cluster.decode[0]
    options = {**first.options, "control_listen": "127.0.0.1:0", "admin_listen": "127.0.0.1:0"}
    second = Process("baton-decode", first.node, tmp_path, options)
    router = another_router(cluster, "r8", [])
    try:
        second.start().wait_ready()
        router.options["decode"] = [each.announced["control"] for each in (first, second)]
        router.start().wait_ready()
        for _ in range(10):
            answer = http_api.post(router.announced["api"], "/v1/completions",
                                   completion("Water boils at", max_tokens=4))
            assert answer.status == 200, answer.body
            time.sleep(0.1)
        wait_until(lambda: router.metrics().total("baton_control_dropped_total",
                                                  reason="duplicate_node"), "it is refused")
        assert not router.metrics().by("baton_attempts_total", "reason")
    finally:
        for each in (router, second):
            if each.running:
                each.kill()


def test_addresses_where_nobody_answers_do_not_slow_the_others(cluster):
    def ask(api: str) -> float:
        start = time.monotonic()
        answer = http_api.post(api, "/v1/completions", completion("Water boils at", max_tokens=2))
        assert answer.status == 200, answer
        return time.monotonic() - start

    usual = ask(cluster.api)
    with socket.create_server(("127.0.0.1", 0)) as black_hole:
        port = black_hole.getsockname()[1]
        router = another_router(cluster, "r7", [cluster.decode[0].announced["control"],
                                                f"127.0.0.1:{port}", "192.0.2.1:9"])
        try:
            router.start().wait_ready()
            # A deadline of one of them would be two seconds.
            assert min(ask(router.announced["api"]) for _ in range(3)) < 1 + 2 * usual
        finally:
            router.kill()
