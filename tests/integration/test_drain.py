"""What clients see of a router whose requests last longer than its drain's grace."""

import concurrent.futures
import json
import socket
import time

import pytest

from support.build import PATIENCE_S
from support.cluster import COMPLETIONS, Cluster, completion
from support.http_api import collect

GRACE_S = 1
LONG = {"max_tokens": 4000, "ignore_eos": True}


def cluster_with(folder, grace_s: float) -> Cluster:
    return Cluster(folder, worker_options={"cache_tokens": 16384},
                   router_options={"drain_grace": f"{grace_s}s"})


@pytest.fixture
def cluster(tmp_path):
    with cluster_with(tmp_path, GRACE_S) as running:
        yield running


def test_open_requests_end_with_an_error_that_says_why(cluster):
    pool = concurrent.futures.ThreadPoolExecutor(2)
    whole = pool.submit(cluster.post, COMPLETIONS, completion("Once upon", **LONG))
    stream = cluster.stream(COMPLETIONS, completion("There was", **LONG)).open()
    streamed = pool.submit(collect, stream)
    cluster.wait_running(cluster.decode, 2)
    assert cluster.router.stop() == 0
    outcome, answer = streamed.result(PATIENCE_S), whole.result(PATIENCE_S)
    assert outcome.failed_clearly and outcome.error["code"] == "draining", outcome
    assert outcome.text
    assert stream.answer.read().strip() == b""  # raises where the chunked body has no end
    assert answer.status == 503 and answer.json()["error"]["code"] == "draining", answer
    cluster.wait_baseline()


def test_clients_that_do_not_go_on_hold_no_router(cluster):
    with connected(cluster) as unsent, connected(cluster) as unread:
        unsent.sendall(head("/v1/completions", 100) + b"{")
        text = json.dumps({"prompt": "a " * 1_000_000}).encode()
        unread.sendall(head("/tokenize", len(text)) + text)
        assert unread.recv(8) == b"HTTP/1.1"
        began = time.monotonic()
        assert cluster.router.stop() == 0
        took = time.monotonic() - began
    # They have the grace; the HTTP server alone would wait 10 s for the one and 20 s for the other.
    assert GRACE_S <= took < GRACE_S + 5


def test_clients_between_two_requests_hold_no_router(tmp_path):
    with cluster_with(tmp_path, 10 * PATIENCE_S) as cluster, connected(cluster) as fresh:
        stream = cluster.stream(COMPLETIONS, completion("There was", max_tokens=2))
        assert collect(stream).finished
        assert cluster.router.stop() == 0
        assert fresh.recv(1) == b"" and not stream.answer.isclosed()


def connected(cluster) -> socket.socket:
    """With so small a window that a long answer stays with the router."""
    host, port = cluster.api.rsplit(":", 1)
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.settimeout(PATIENCE_S)
    client.connect((host, int(port)))
    return client


def head(path: str, length: int) -> bytes:
    return f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n".encode()
