"""Debian's Prometheus with the product's scrape configuration and rules, for tests: on a free port
of the loopback, with a store that is thrown away.

    with Prometheus(["127.0.0.1:9100"], folder) as prometheus:
        prometheus.wait_for_data("up", 10)
        prometheus.query("sum(baton_queue_depth)")  # [{"metric": {...}, "value": [time, "3"]}]
"""

import json
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from pathlib import Path

import yaml

from support.build import PATIENCE_S
from support.process import wait_until

CONFIGURATION = Path(__file__).resolve().parents[2] / "deploy/prometheus"


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Prometheus:
    def __init__(self, targets: list[str], folder: Path, scrape_interval: str = "1s"):
        self.folder, self.port = folder, free_port()
        configuration = yaml.safe_load((CONFIGURATION / "prometheus.yml").read_text())
        configuration["global"] = {"scrape_interval": scrape_interval,
                                   "evaluation_interval": scrape_interval}
        configuration["rule_files"] = [str(CONFIGURATION / name)
                                       for name in configuration["rule_files"]]
        (folder / "targets").mkdir(parents=True)
        (folder / "targets/baton.json").write_text(json.dumps([{"targets": targets}]))
        (folder / "prometheus.yml").write_text(yaml.safe_dump(configuration))

    def __enter__(self) -> "Prometheus":
        for _ in range(3):
            self._start()
            try:
                wait_until(lambda: self._is_ready() or self.process.poll() is not None,
                           "Prometheus is ready", every=0.1)
            except BaseException:
                self.__exit__()
                raise
            if self.process.poll() is None:
                return self
            self.__exit__()
            self.port = free_port()  # another process may have taken the last one
        raise RuntimeError((self.folder / "prometheus.log").read_text()[-2000:])

    def _start(self) -> None:
        self.log = (self.folder / "prometheus.log").open("w")
        self.process = subprocess.Popen(
            ["prometheus", f"--config.file={self.folder}/prometheus.yml",
             f"--storage.tsdb.path={self.folder}/data",
             f"--web.listen-address=127.0.0.1:{self.port}"],
            stdout=self.log, stderr=subprocess.STDOUT)

    def __exit__(self, *_) -> None:
        self.process.terminate()
        self.process.wait(PATIENCE_S)
        self.log.close()

    def _is_ready(self) -> bool:
        url = f"http://127.0.0.1:{self.port}/-/ready"
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return answer.status == 200
        except OSError:
            return False

    def query(self, expr: str) -> list[dict]:
        """The instant vector that expr is now."""
        arguments = urllib.parse.urlencode({"query": expr})
        url = f"http://127.0.0.1:{self.port}/api/v1/query?{arguments}"
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
            return json.load(answer)["data"]["result"]

    def has_data(self, expr: str) -> bool:
        """Whether expr has a sample that is a number: 0/0 of a rate without events is no data."""
        return any(sample["value"][1] != "NaN" for sample in self.query(expr))

    def wait_for_data(self, expr: str, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while not self.has_data(expr):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.2)
        return True

    def without_data(self, queries, seconds: float = 10) -> list[str]:
        """The queries (of queries.py) that have no data after so many seconds: "where: expr"."""
        deadline = time.monotonic() + seconds
        return [f"{query.where}: {query.expr}" for query in queries
                if not self.wait_for_data(query.expr, max(0.0, deadline - time.monotonic()))]
