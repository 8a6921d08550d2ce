"""Every PromQL query that the deployment ships: of the board, of the recording rules and of the
autoscalers. Tests check them here and run them against a live Prometheus (prometheus.py)."""

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
TOOLS = Path(sys.executable).parent

# What Baton exports: name -> (type, labels besides role and node). Histograms are queried by their
# series _bucket, _sum and _count.
METRICS = {
    "baton_time_to_first_token_seconds": ("histogram", set()),
    "baton_time_per_output_token_seconds": ("histogram", set()),
    "baton_inter_token_latency_seconds": ("histogram", set()),
    "baton_request_phase_seconds": ("histogram", {"phase"}),
    "baton_handoff_seconds": ("histogram", set()),
    "baton_handoff_bytes_total": ("counter", {"direction"}),
    "baton_handoff_failures_total": ("counter", {"reason"}),
    "baton_handoffs_in_flight": ("gauge", set()),
    "baton_cache_usage_ratio": ("gauge", {"group"}),
    "baton_queue_depth": ("gauge", set()),
    "baton_prefill_backlog_seconds": ("gauge", set()),
    "baton_requests_total": ("counter", {"outcome"}),
    "baton_build_info": ("gauge", {"version"}),
}
PHASES = ("queue", "prefill", "handoff_exposed", "first_decode", "decode", "unaccounted")


@dataclass(frozen=True)
class Query:
    where: str  # for the message of a test that fails
    expr: str  # complete PromQL: no variables of a dashboard or an adapter left

    def series(self) -> set[str]:
        """The series names of Baton that it reads."""
        return set(re.findall(r"\bbaton_\w+(?=[\s{\[)]|$)", self.expr))


def board(root: Path = ROOT) -> dict:
    return json.loads((root / "deploy/grafana/baton.json").read_text())


def board_queries(rate_interval: str = "1m", root: Path = ROOT) -> list[Query]:
    """rate_interval stands for Grafana's $__rate_interval: at least four scrape intervals."""
    queries = []
    for panel in board(root)["panels"]:
        for target in panel.get("targets", []):
            expr = target["expr"].replace("$__rate_interval", rate_interval)
            queries.append(Query(f"board, {panel['title']}, {target['refId']}", expr))
    return queries


def rules(root: Path = ROOT) -> dict[str, str]:
    """Recording rules: name -> expression."""
    groups = yaml.safe_load((root / "deploy/prometheus/rules.yml").read_text())["groups"]
    return {rule["record"]: rule["expr"] for group in groups for rule in group["rules"]}


def rule_queries(root: Path = ROOT) -> list[Query]:
    return [Query(f"rule {name}", expr) for name, expr in rules(root).items()]


def manifests(folder: str, root: Path = ROOT) -> list[dict]:
    """What `kubectl kustomize` makes of a folder below deploy/kubernetes."""
    done = subprocess.run([TOOLS / "kubectl", "kustomize", root / "deploy/kubernetes" / folder],
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"kubectl kustomize {folder}: {done.stderr}")
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def autoscaler_metrics(folder: str = "base", root: Path = ROOT) -> dict[str, str]:
    """autoscaler -> name of the metric per pod that it reads"""
    return {document["metadata"]["name"]: metric["pods"]["metric"]["name"]
            for document in manifests(folder, root)
            if document["kind"] == "HorizontalPodAutoscaler"
            for metric in document["spec"]["metrics"] if metric["type"] == "Pods"}


def adapter_queries(root: Path = ROOT) -> dict[str, str]:
    """metric per pod -> the PromQL that prometheus-adapter runs for it, with the label `node` in
    the place of the pod, whose name is the node's id."""
    text = (root / "deploy/prometheus/adapter.yaml").read_text()
    queries = {}
    for rule in yaml.safe_load(text)["rules"]:
        series = re.match(r"\w+", rule["seriesQuery"]).group(0)
        expr = rule["metricsQuery"].replace("<<.Series>>", series)
        expr = expr.replace("<<.LabelMatchers>>", 'node!=""').replace("<<.GroupBy>>", "node")
        queries[series] = expr
    return queries


def autoscaler_queries(root: Path = ROOT) -> list[Query]:
    adapter = adapter_queries(root)
    return [Query(f"autoscaler {name}", adapter[metric])
            for name, metric in autoscaler_metrics(root=root).items()]


def all_queries(rate_interval: str = "1m", root: Path = ROOT) -> list[Query]:
    return board_queries(rate_interval, root) + rule_queries(root) + autoscaler_queries(root)
