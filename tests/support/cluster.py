"""Real clusters for tests: any number of prefill nodes, decode nodes and routers.

    with Cluster(folder, prefill=2, decode=2) as cluster:
        cluster.complete("The capital of France is", max_tokens=8).text
        cluster.decode[0].kill()
        cluster.wait_baseline()

Ports are the system's choice, so that clusters do not meet. When the block fails, the ends of all
logs are printed; when it ends, every process is gone.
"""

import os
import sys
from pathlib import Path

import pytest

from support import http_api
from support.build import PATIENCE_S, SANITIZER
from support.http_api import Stream
from support.process import Process, wait_until

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
# Two nodes compute on one small machine: one thread each leaves room for the other processes.
WORKER_OPTIONS = {"threads": 1, "poison_freed": True}
# The figures of a handoff belong to every answer, on a busy machine, too.
ROUTER_OPTIONS = {"facts_wait": f"{PATIENCE_S}s"}


def default_model() -> Path:
    """SmolLM2, as tests/run fetches it."""
    path = os.environ.get("BATON_TEST_MODEL")
    if not path:
        pytest.skip("BATON_TEST_MODEL names no model (tests/run sets it)")
    return Path(path)


def used_blocks(node: Process) -> dict[str, float]:
    """What a worker's pools are short of being empty, by cache group: {} at the baseline."""
    metrics = node.metrics()
    out = {}
    for (name, labels), total in metrics.samples.items():
        if name != "baton_cache_blocks":
            continue
        group = dict(labels)["group"]
        used = total - metrics.value("baton_cache_free_blocks", group=group)
        used += metrics.value("baton_cache_quarantined_blocks", group=group)
        if used or not total:
            out[group] = used or -1
    return out


class Cluster:
    def __init__(self, folder: Path, prefill: int = 1, decode: int = 1, routers: int = 1,
                 model: Path | None = None, prefill_options=None, decode_options=None,
                 router_options=None, worker_options=None, environment=None):
        self.folder = Path(folder)
        self.folder.mkdir(exist_ok=True)
        shared = {"model": model or default_model(), **WORKER_OPTIONS, **(worker_options or {})}
        self.environment = environment
        self.prefill = [self._make("baton-prefill", f"p{i}", {**shared, **(prefill_options or {})})
                        for i in range(prefill)]
        self.decode = [self._make("baton-decode", f"d{i}", {**shared, **(decode_options or {})})
                       for i in range(decode)]
        self.router_options = {**ROUTER_OPTIONS, **(router_options or {})}
        self.routers = [self._make("baton-router", f"r{i}", {"listen": "127.0.0.1:0"})
                        for i in range(routers)]

    def _make(self, program: str, node: str, options: dict) -> Process:
        return Process(program, node, self.folder, options, self.environment)

    # ---- life ----

    def __enter__(self) -> "Cluster":
        try:
            return self.start()
        except BaseException:
            self.close(failed=True)
            raise

    def __exit__(self, kind, *_) -> None:
        self.close(failed=kind is not None)

    def start(self) -> "Cluster":
        for worker in self.workers:
            worker.start()
        self.start_routers()
        return self.wait_ready()

    def start_routers(self) -> None:
        for router in self.routers:
            router.options.update({
                "prefill": [each.announced["control"] for each in self.prefill],
                "decode": [each.announced["control"] for each in self.decode],
                **self.router_options})
            router.start()

    def close(self, failed: bool = False) -> None:
        if failed:
            self.show_state()
        try:
            if SANITIZER and not failed:
                self._end_in_order()
        finally:
            for process in self.processes:
                if process.process is not None:
                    process.kill()

    def _end_in_order(self) -> None:
        """Only what ends by itself says what it leaked, and what its end raced with."""
        running = [process for process in self.processes if process.running]
        for process in running:
            process.stop()
        for process in running:
            assert process.process.returncode == 0, f"{process.node}:\n{process.tail(300)}"

    def show_state(self) -> None:
        """The ends of the logs and whatever is not zero, for whoever reads about a failure."""
        for process in self.processes:
            print(f"---- {process.node} ----\n{process.tail()}", file=sys.stderr)
            try:
                samples = process.metrics().samples if process.running else {}
            except OSError:
                continue  # stopped, or just about to listen
            for (name, labels), value in samples.items():
                if value and not name.endswith(("_bucket", "_sum")):
                    shown = ",".join("=".join(pair) for pair in sorted(labels))
                    print(f"{name}{{{shown}}} {value:g}", file=sys.stderr)

    def wait_ready(self) -> "Cluster":
        """All ready, and every worker known to every router."""
        for process in self.processes:
            process.wait_ready()
        for router in self.routers:
            wait_until(lambda: self.workers_up(router) == len(self.workers),
                       f"{router.node} sees all workers")
        return self

    @property
    def workers(self) -> list[Process]:
        return [*self.prefill, *self.decode]

    @property
    def processes(self) -> list[Process]:
        return [*self.workers, *self.routers]

    @property
    def router(self) -> Process:
        return self.routers[0]

    @property
    def api(self) -> str:
        return self.router.announced["api"]

    @staticmethod
    def workers_up(router: Process) -> int:
        listed = http_api.get(router.admin, "/workers").json()["workers"]
        return sum(1 for worker in listed if worker["up"])

    # ---- requests ----

    def post(self, path: str, body, timeout: float = PATIENCE_S) -> http_api.Answer:
        return http_api.post(self.api, path, body, timeout)

    def stream(self, path: str, body: dict, timeout: float = PATIENCE_S) -> Stream:
        return Stream(self.api, path, body, timeout)

    def complete(self, prompt, timeout: float = PATIENCE_S, **options) -> http_api.Outcome:
        """One completion at temperature 0 with its trace; prompt: text or token ids."""
        answer = self.post(COMPLETIONS, completion(prompt, **options), timeout)
        out = http_api.Outcome(status=answer.status)
        body = answer.json()
        if answer.status != 200:
            out.error = body["error"]
            return out
        choice = body["choices"][0]
        out.text, out.finish, out.done = choice["text"], choice["finish_reason"], True
        out.trace, out.usage = body["baton"], body["usage"]
        return out

    # ---- state ----

    def wait_baseline(self, nodes=None) -> None:
        """Until no live worker holds a block, in use or in quarantine: what P4 calls the
        baseline."""
        for node in self.workers if nodes is None else nodes:
            if node.running:
                wait_until(lambda: not used_blocks(node), f"the pools of {node.node} are empty")

    def wait_baseline_by_itself(self) -> None:
        """The same where nothing was lost: no lease ran out for it, no inventory found an
        orphan."""
        self.wait_baseline()
        for node in self.workers:
            metrics = node.metrics()
            for name in ("baton_leases_expired_total", "baton_orphans_freed_total"):
                assert metrics.value(name) == 0, (node.node, name)

    def wait_running(self, nodes, count: float = 1) -> None:
        wait_until(lambda: sum(node.metrics().value("baton_running_requests") for node in nodes)
                   >= count, f"{count} running on {[node.node for node in nodes]}", every=0.005)


def completion(prompt, **options) -> dict:
    return {"prompt": prompt, "temperature": 0, "max_tokens": 16,
            "baton": {"trace": True, "logits_digest": True}, **options}
