"""A failed test shows the logs and counters of its clusters, while they still run."""

import pytest

from support.cluster import Cluster


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.when == "call" and report.failed:
        for name, value in item.funcargs.items():
            if isinstance(value, Cluster):
                print(f"==== {name}, when the test failed ====")
                value.show_state()
    return report
