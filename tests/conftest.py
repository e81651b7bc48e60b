"""What holds for every test: one thread, no deadline, nothing skipped in CI but for want of real data."""

import importlib.util
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported: the workers share the cores

import pytest
from hypothesis import settings

pytest.register_assert_rewrite("contracts", "one_weight", "toy", "worlds")
settings.register_profile("pluribus", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("pluribus")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """`@pytest.mark.needs("mosquitto", install="apt-get install mosquitto")` skips where that is missing.

    `@pytest.mark.real_data("pacs")` skips where $PLURIBUS_DATA names no folder with these datasets.
    """
    for mark in item.iter_markers("needs"):
        program = mark.args[0]
        if not (shutil.which(program) or importlib.util.find_spec(program)):
            pytest.skip(f"{program} is missing; to install it: {mark.kwargs['install']}")
    for mark in item.iter_markers("real_data"):
        if missing := [one for one in mark.args if not at_hand(one)]:
            names = ", ".join(one if isinstance(one, str) else one.name for one in missing)
            pytest.skip(f"$PLURIBUS_DATA has no {names}")


def at_hand(name) -> bool:
    """Whether the folders of $PLURIBUS_DATA have all of this dataset, or of what has this entry."""
    from pluribus.data import entry, places

    named = [Path(folder) for folder in os.environ.get("PLURIBUS_DATA", "").split(os.pathsep) if folder]
    found = places.find(entry(name) if isinstance(name, str) else name) if named else None
    return bool(found) and all(any(path.is_relative_to(one) for one in named) for path in found.paths)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = yield
    return report if item.get_closest_marker("real_data") else failed_in_ci(report)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    report = yield
    return failed_in_ci(report)


def failed_in_ci(report):
    """In CI a skip is a failure, as nothing may be missing there but data that nobody may pass on."""
    if os.environ.get("CI") == "true" and report.skipped and not hasattr(report, "wasxfail"):
        *_, reason = report.longrepr
        report.outcome, report.longrepr = "failed", f"in CI nothing may be skipped; this was: {reason}"
    return report
