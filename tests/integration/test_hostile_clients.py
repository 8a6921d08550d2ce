"""Clients that do not behave: each gets a defined answer and nobody else waits for it (R6, R20)."""

import concurrent.futures
import json
import random
import socket
import struct
import threading
import time

import pytest

from support import http_api
from support.cluster import COMPLETIONS, Cluster, completion
from support.process import wait_until
from support.stranger import GoodClient, connect, talk


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("clients"),
                 worker_options={"cache_tokens": 8192}) as running:
        yield running
        assert all(process.running for process in running.processes)
        running.wait_baseline()


def post_bytes(body: bytes, path: str = COMPLETIONS) -> bytes:
    return (f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n").encode() + body


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1 ") else 0


def error_of(answer: bytes) -> dict:
    return json.loads(answer.split(b"\r\n\r\n", 1)[1])["error"]


BAD_BODIES = {
    "nothing": b"",
    "a list": b"[]",
    "too deep": b"[" * 100_000,
    "objects too deep": b'{"a":' * 100_000,
    "a raw NUL": b'{"prompt": "a\0b"}',
    "no UTF-8": b'{"prompt": "\xff\xfe\xc0\x80"}',
    "half a surrogate": b'{"prompt": "\\ud800"}',
    "no number": b'{"prompt": "x", "temperature": NaN}',
    "an infinite number": b'{"prompt": "x", "max_tokens": 1e400}',
    "ids outside the vocabulary": b'{"prompt": [999999999]}',
    "negative ids": b'{"prompt": [-1]}',
    "a million ids": json.dumps({"prompt": [1] * 1_000_000}).encode(),
    "SEC-13: millions of one letter": json.dumps({"prompt": "a" * 4_000_000}).encode(),
    "a hundred thousand fields": json.dumps({str(i): 1 for i in range(100_000)}).encode(),
}


def test_bad_bodies_are_answered_400_with_a_reason_and_nobody_waits(cluster):
    with GoodClient(cluster) as good:
        for name, body in BAD_BODIES.items():
            answer = talk(cluster.api, post_bytes(body))
            assert status(answer) == 400, (name, answer[:200])
            assert error_of(answer)["message"] and error_of(answer)["code"], name
        too_long = json.dumps({"prompt": "a" * 5_000_000}).encode()
        assert status(talk(cluster.api, post_bytes(too_long))) == 413
    print(f"slowest good request: {max(good.seconds):.2f} s of {len(good.seconds)}")


UNKNOWN_IDS = {"prompt": [999_999], "stop_token_ids": [999_999], "logit_bias": {"999999": 1}}


@pytest.mark.parametrize("name", UNKNOWN_IDS)
def test_ids_outside_the_vocabulary_are_refused_by_name(cluster, name):
    body = {"prompt": "x", "max_tokens": 1, name: UNKNOWN_IDS[name]}
    answer = http_api.post(cluster.api, COMPLETIONS, body)
    assert answer.status == 400, answer.text()
    error = answer.json()["error"]
    assert error["param"] == name and "999999" in error["message"], error


@pytest.mark.parametrize("path,body", [("/tokenize", {"prompt": "a b" * 1_300_000}),
                                       ("/detokenize", {"tokens": [100] * 190_000})],
                         ids=["tokenize", "detokenize"])
def test_r6_long_texts_are_converted_while_others_are_served(cluster, path, body):
    """The loop stays free: what it answers by itself comes at once all the while. Of three runs one
    must show it: the machine, too, may let an answer wait."""
    request = post_bytes(json.dumps(body).encode(), path)
    runs = []
    for _ in range(3):
        slowest, took = slowest_of_others(cluster, request)
        runs.append(f"{slowest:.2f} s of {took:.2f} s")
        # On the loop it would be about all of the time; serialising the answer is what is left
        # there.
        if slowest < max(0.5, took / 2):
            return
    pytest.fail(f"others waited {runs}")


def slowest_of_others(cluster, request: bytes) -> tuple[float, float]:
    """The longest wait for an answer of the loop while this request is answered, and how long that
    took."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        start, slowest = time.monotonic(), 0.0
        answer = pool.submit(talk, cluster.api, request)
        while not answer.done():
            before = time.monotonic()
            assert http_api.get(cluster.api, "/health").status == 200
            slowest = max(slowest, time.monotonic() - before)
    assert status(answer.result()) == 200, answer.result()[:200]
    return slowest, time.monotonic() - start


def test_megabytes_of_others_are_not_in_front_of_a_long_prompt(cluster):
    huge = post_bytes(json.dumps({"prompt": "a" * 2_000_000}).encode())
    crowd = [threading.Thread(target=talk, args=(cluster.api, huge)) for _ in range(6)]
    for each in crowd:
        each.start()
    time.sleep(0.2)
    start = time.monotonic()
    # More than 16 KiB: not on the loop either.
    outcome = cluster.post("/tokenize", {"prompt": "hello world " * 3_000})
    took = time.monotonic() - start
    alive = sum(each.is_alive() for each in crowd)
    for each in crowd:
        each.join()
    assert outcome.status == 200
    assert alive >= 3, f"{took:.2f} s: it waited for them"


def test_clients_that_leave_at_any_moment_leave_nothing(cluster):
    chance = random.Random(5)
    request = post_bytes(json.dumps(completion("Once upon a time " * 40, max_tokens=40,
                                               stream=True)).encode())
    with GoodClient(cluster):
        for _ in range(60):
            with connect(cluster.api) as client:
                cut = chance.choice([0, 5, len(request) // 2, len(request) - 1, len(request)])
                client.sendall(request[:cut])
                if cut == len(request):
                    time.sleep(chance.random() * 0.3)
                if chance.random() < 0.3:  # a reset in place of a farewell
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    cluster.wait_baseline()
    wait_until(lambda: cluster.router.metrics().value("baton_queue_depth") == 0, "no queue")


def test_pipelined_requests_are_answered_in_order(cluster):
    one = b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n"
    last = b"GET /v1/models HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    with GoodClient(cluster):
        assert talk(cluster.api, one * 299 + last).count(b"HTTP/1.1 200 OK") == 300


def test_a_thousand_connections_take_only_what_one_address_may_have(cluster):
    crowd = [connect(cluster.api) for _ in range(1000)]
    try:
        time.sleep(0.5)
        served = 0
        for each in crowd[:100]:
            try:
                each.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
                served += b"200" in each.recv(1000)[:20]
            except OSError:
                pass
        assert 1 <= served <= 64
    finally:
        for each in crowd:
            each.close()
    # As soon as their ends have been read.
    wait_until(lambda: cluster.complete("Water boils at", max_tokens=2).status == 200, "an answer")


def test_slow_headers_are_cut_after_their_time_and_nobody_waits(cluster):
    with GoodClient(cluster):
        slow = [connect(cluster.api) for _ in range(40)]
        start = time.monotonic()
        while time.monotonic() - start < 12:
            for each in slow:
                try:
                    each.sendall(b"X: y\r\n" if time.monotonic() - start > 0.1 else b"GET / HTTP")
                except OSError:
                    pass
            time.sleep(0.5)
        cut = 0
        for each in slow:
            each.settimeout(2)
            try:
                cut += status(each.recv(4096)) in (400, 408)
            except OSError:
                cut += 1
            each.close()
        assert cut == len(slow)
