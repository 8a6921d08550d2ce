"""Reads what a process exports at /metrics."""

import re

from support import http_api

SAMPLE = re.compile(r'^(\w+)(?:\{(.*)\})? (\S+)$')
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class Metrics:
    """One scrape. Labels `role` and `node` are on every sample and left out here."""

    def __init__(self, text: str):
        self.text = text
        self.samples = {}  # (name, frozenset of label pairs) -> value
        for line in text.splitlines():
            found = SAMPLE.match(line)
            if not found or line.startswith("#"):
                continue
            labels = {key: value for key, value in LABEL.findall(found[2] or "")
                      if key not in ("role", "node")}
            self.samples[found[1], frozenset(labels.items())] = float(found[3])

    def value(self, name: str, **labels) -> float:
        """The sample with exactly these labels; KeyError when it is not exported."""
        return self.samples[name, frozenset(labels.items())]

    def total(self, name: str, **labels) -> float:
        """Sum over the samples of that name that carry at least these labels."""
        wanted = set(labels.items())
        return sum(value for (each, pairs), value in self.samples.items()
                   if each == name and wanted <= pairs)

    def by(self, name: str, label: str) -> dict[str, float]:
        """label's value -> sum, without the zeros."""
        out = {}
        for (each, pairs), value in self.samples.items():
            if each == name and value:
                key = dict(pairs).get(label, "")
                out[key] = out.get(key, 0.0) + value
        return out

    def series(self) -> set:
        return set(self.samples)


def scrape(admin: str) -> Metrics:
    answer = http_api.get(admin, "/metrics")
    assert answer.status == 200, answer
    return Metrics(answer.text())
