"""One process of Baton under test: started on free ports of the loopback, watched, and never left
behind (it dies with the test run, whatever ends that)."""

import ctypes
import json
import os
import signal
import subprocess
import time
from pathlib import Path

from support import http_api
from support.build import BUILD, PATIENCE_S, SANITIZER, SANITIZER_OPTIONS
from support.metrics import Metrics, scrape

LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_PDEATHSIG = 1
COMPUTING = ("baton-engine", "baton-kernel")  # names of threads


def wait_until(condition, what: str, seconds: float = PATIENCE_S, every: float = 0.02):
    """What condition() gives once that is true; fails the test after so many seconds."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(every)
    return value


def _dies_with_parent() -> None:
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def flags_of(options: dict) -> list[str]:
    """{"cache_tokens": 8, "no_x": True} -> ["--cache-tokens", "8", "--no-x"]; a list repeats."""
    out = []
    for name, value in options.items():
        for each in value if isinstance(value, (list, tuple)) else [value]:
            flag = "--" + name.replace("_", "-")
            out += [flag] if each is True else [flag, str(each)]
    return out


class Process:
    """Start it on the test's main thread: it is killed when the thread that started it ends."""

    def __init__(self, program: str, node: str, folder: Path, options: dict, environment=None):
        self.program, self.node, self.folder = program, node, folder
        self.options = dict(options)
        self.environment = {**(SANITIZER_OPTIONS if SANITIZER else {}), **os.environ,
                            **(environment or {})}
        self.announced, self.process, self.starts = {}, None, 0

    @property
    def log(self) -> Path:
        return self.folder / f"{self.node}.log"

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def admin(self) -> str:
        return self.announced["admin"]

    def start(self) -> "Process":
        """Started, with its addresses announced; not ready yet. The ports of the first start are
        those of every later one."""
        announce = self.folder / f"{self.node}.json"
        announce.unlink(missing_ok=True)
        self.starts += 1
        command = [str(BUILD / "bin" / self.program), "--node", self.node, "--announce",
                   str(announce), *flags_of(self.options)]
        with self.log.open("ab") as log:
            log.write(f"--- {' '.join(command)}\n".encode())
            log.flush()
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=self.environment,
                                            stdin=subprocess.DEVNULL, preexec_fn=_dies_with_parent)
        wait_until(lambda: announce.exists() or not self.running, f"{self.node} announces")
        assert announce.exists(), f"{self.node} ended:\n{self.tail()}"
        self.announced = json.loads(announce.read_text())
        for option, key in (("listen", "api"), ("control_listen", "control"),
                            ("admin_listen", "admin")):
            if key in self.announced:
                self.options[option] = self.announced[key]
        return self

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def is_ready(self) -> bool:
        try:
            return http_api.get(self.admin, "/readyz", timeout=10).status == 200
        except OSError:
            assert self.running, f"{self.node} ended:\n{self.tail()}"
            return False

    def wait_ready(self) -> "Process":
        wait_until(self.is_ready, f"{self.node} is ready")
        return self

    def metrics(self) -> Metrics:
        return scrape(self.admin)

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        """kill -9, gone when this returns."""
        if self.running:
            self.process.kill()
        self.process.wait(PATIENCE_S)

    def freeze(self) -> None:
        """SIGSTOP, in effect when this returns."""
        self.signal(signal.SIGSTOP)
        wait_until(lambda: self._state() == "T", f"{self.node} stops", every=0.001)

    def thaw(self) -> None:
        self.signal(signal.SIGCONT)

    def stop(self) -> int:
        """SIGTERM and its exit code."""
        if self.running:
            self.signal(signal.SIGCONT)
            self.signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_S)

    def restart(self) -> "Process":
        """A new life on the same ports, after the old one was killed."""
        self.kill()
        return self.start()

    def waited_s(self) -> float:
        """How long its threads that pass messages on could have run and had no processor. Threads
        that compute wait within a phase, which counts it."""
        waited = 0
        for thread in Path(f"/proc/{self.pid}/task").iterdir():
            try:
                if (thread / "comm").read_text().strip() not in COMPUTING:
                    waited += int((thread / "schedstat").read_text().split()[1])
            except OSError:  # it has ended
                pass
        return 1e-9 * waited

    def _state(self) -> str:
        return Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()[0]

    def tail(self, lines: int = 30) -> str:
        if not self.log.exists():
            return ""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
