"""What holds for every test: one thread, no deadline, nothing skipped in CI, real data only if there are."""

import importlib.util
import os
import shutil
from collections.abc import Iterator

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported: the workers share the cores

import pytest
from hypothesis import settings

pytest.register_assert_rewrite("contracts", "one_weight", "toy", "worlds")
settings.register_profile("pluribus", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("pluribus")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests of real data are left out, not skipped, where $PLURIBUS_DATA is not set."""
    if os.environ.get("PLURIBUS_DATA"):
        return
    left_out = [item for item in items if item.get_closest_marker("real_data")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """`@pytest.mark.needs("mosquitto", install="apt-get install mosquitto")` skips where that is missing."""
    for mark in item.iter_markers("needs"):
        program = mark.args[0]
        if not (shutil.which(program) or importlib.util.find_spec(program)):
            pytest.skip(f"{program} is missing; to install it: {mark.kwargs['install']}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = yield
    return failed_in_ci(report)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    report = yield
    return failed_in_ci(report)


def failed_in_ci(report):
    """In CI a skip is a failure; an expected failure is not a skip."""
    if os.environ.get("CI") == "true" and report.skipped and not hasattr(report, "wasxfail"):
        *_, reason = report.longrepr
        report.outcome, report.longrepr = "failed", f"in CI nothing may be skipped; this was: {reason}"
    return report
