"""Brings a request into a given state of its handoff, on a cluster of real processes, so that a
test can break something just then.

queued        its prefill node computes another prompt first
prefilling    chunks of it are computed, finished units are on their way
transferring  token 0 is with the client, the decode node (stopped) has not answered the commit
decoding      tokens of the decode node are with the client
"""

import concurrent.futures
import threading

from support.build import PATIENCE_S, SANITIZER
from support.cluster import COMPLETIONS, Cluster, completion
from support.http_api import collect
from support.process import wait_until

STATES = ("queued", "prefilling", "transferring", "decoding")
# A lease for tests of silence and lost routers, and one that ends in no test: what is freed there
# is freed because somebody said so.
LEASE_S, NO_LEASE_S = 2, 600
# Small steps make states long enough to be met; a prompt that was asked before would be computed
# too fast and not be sent, were its cache kept.
PREFILL = {"token_budget": 64, "chunk_rows": 64}
# Deadlines that are met by what is healthy, on a slow machine, too.
ROUTER = {"handoff_wait": "60s" if SANITIZER else "20s", "grant_wait": "10s"}


def long_prompt(number: int = 0, length: int = 700) -> list[int]:
    return [1 + (number * 977 + i * 7919) % 49000 for i in range(length)]


def fault_cluster(folder, prefill: int = 1, decode: int = 1, transports: str = "shm",
                  router_options=None, lease_s: float = NO_LEASE_S,
                  cache_dtype: str = "bf16") -> Cluster:
    lease = {"lease": f"{lease_s}s"}
    return Cluster(folder, prefill=prefill, decode=decode, prefill_options=PREFILL,
                   worker_options={**lease, "cache_tokens": 16384, "transports": transports,
                                   "cache_dtype": cache_dtype, "no_prefix_cache": True,
                                   "drain_grace": "600s"},
                   router_options={**lease, **ROUTER, "drain_grace": "600s",
                                   **(router_options or {})})


class Client:
    """A streamed request on a thread of its own."""

    def __init__(self, cluster: Cluster, prompt, **options):
        body = completion(prompt, **{"max_tokens": 24, "ignore_eos": True, **options})
        self.stream = cluster.stream(COMPLETIONS, body)
        self.chunks = 0
        self.changed = threading.Condition()
        self.pool = concurrent.futures.ThreadPoolExecutor(1)
        self.future = self.pool.submit(collect, self.stream, self._chunk)

    def _chunk(self, _) -> None:
        with self.changed:
            self.chunks += 1
            self.changed.notify_all()

    def wait_chunks(self, count: int) -> None:
        with self.changed:
            came = self.changed.wait_for(lambda: self.chunks >= count or self.future.done(),
                                         PATIENCE_S)
        assert came and self.chunks >= count, (self.chunks, count, self.future)

    def leave(self) -> None:
        """The client goes away."""
        self.stream.abort()

    def outcome(self):
        return self.future.result(PATIENCE_S)


class Scene:
    """One request in `state`; `prefill` and `decode` are the nodes that serve it."""

    def __init__(self, cluster: Cluster, state: str, prompt=None, **options):
        self.cluster, self.state, self.stopped, self.others = cluster, state, None, []
        prompt = prompt or long_prompt()
        if state == "queued":
            # A step is shared by two prompts: two for each node, so that ours waits wherever it is.
            for number in range(2 * len(cluster.prefill)):
                self.others.append(Client(cluster, long_prompt(number + 1, 1200), max_tokens=2))
            for node in cluster.prefill:
                cluster.wait_running([node], 2)
        bytes_before = {node.node: received_bytes(node) for node in cluster.decode}
        self.client = Client(cluster, prompt, **options)
        getattr(self, f"_{state}")(bytes_before)

    def _queued(self, _) -> None:
        self.prefill = self._one(self.cluster.prefill, "baton_queue_depth")
        self.decode = self.cluster.decode[0]

    def _prefilling(self, before) -> None:
        self.prefill = self._one(self.cluster.prefill, "baton_running_requests")
        self.decode = self._receiving(before)

    def _transferring(self, before) -> None:
        self._prefilling(before)
        self.decode.freeze()
        self.stopped = self.decode
        self.client.wait_chunks(1)

    def _decoding(self, before) -> None:
        self._prefilling(before)
        self.client.wait_chunks(4)

    def _one(self, nodes, gauge: str):
        def found():
            assert not self.client.future.done(), self.client.outcome()
            return [node for node in nodes if node.metrics().value(gauge) >= 1]
        return wait_until(found, f"{gauge} of {[node.node for node in nodes]}", every=0.002)[0]

    def _receiving(self, before):
        def found():
            assert not self.client.future.done(), self.client.outcome()
            return [node for node in self.cluster.decode
                    if received_bytes(node) > before[node.node]]
        return wait_until(found, "units arrive", every=0.002)[0]

    def thaw(self) -> None:
        if self.stopped is not None and self.stopped.running:
            self.stopped.thaw()


def received_bytes(node) -> float:
    return node.metrics().value("baton_handoff_bytes_total", direction="received")
