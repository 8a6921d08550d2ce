"""Reads and alters the cache arena of a running worker, through /proc/PID/mem: what no peer can do,
and what broken memory or a broken network does."""

import re
from pathlib import Path

import pytest

PAGE = 4096


class Arena:
    """The largest shared memory file that the process maps: a sealed memfd."""

    def __init__(self, pid: int):
        self.path = Path(f"/proc/{pid}/mem")
        found = []
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            span = re.match(r"(\w+)-(\w+) rw-s \S+ \S+ \S+\s+/memfd:", line)
            if span:
                begin, end = (int(each, 16) for each in span.groups())
                found.append((end - begin, begin))
        assert found, f"no arena in the maps of {pid}"
        self.size, self.begin = max(found)

    def _open(self, mode: str):
        try:
            return self.path.open(mode, buffering=0)
        except PermissionError:
            pytest.skip("altering the memory of a process needs ptrace rights over it")

    def read(self, offset: int, count: int) -> bytes:
        with self._open("rb") as memory:
            memory.seek(self.begin + offset)
            return memory.read(count)

    def write(self, offset: int, data: bytes) -> None:
        with self._open("r+b") as memory:
            memory.seek(self.begin + offset)
            assert memory.write(data) == len(data)

    def first_used(self) -> int:
        """Offset of the first byte that is not zero."""
        for offset in range(0, self.size, 256 * PAGE):
            chunk = self.read(offset, min(256 * PAGE, self.size - offset))
            rest = chunk.lstrip(b"\0")
            if rest:
                return offset + len(chunk) - len(rest)
        raise AssertionError("the arena is empty")
