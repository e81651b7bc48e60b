"""The habits that conftest.py holds: what is skipped, and what CI does not let pass."""

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

TESTS = """
import pytest

@pytest.mark.needs("no-such-program", install="apt-get install no-such-program")
def test_a_missing_program(): pass

@pytest.mark.needs("pytest", install="pip install pytest")
def test_a_program_that_is_there(): pass

@pytest.mark.real_data("cifar100")
def test_real_data(): pass

@pytest.mark.xfail(strict=True)
def test_an_expected_failure(): assert False
"""


@pytest.fixture
def suite(pytester, monkeypatch):
    """A folder with our conftest and four tests; called with CI and PLURIBUS_DATA, it runs them."""
    pytester.makeconftest((Path(__file__).parent / "conftest.py").read_text())
    pytester.makepyfile(TESTS)
    pytester.makeini("[pytest]\nmarkers =\n    needs: x\n    real_data: x\n")

    def run(*, ci="", data="/nowhere", arguments=()):
        monkeypatch.setenv("CI", ci)
        monkeypatch.setenv("PLURIBUS_DATA", data)
        return pytester.runpytest("-ra", "-p", "no:cacheprovider", *arguments)

    return run


def test_what_is_missing_is_skipped_with_the_command_that_installs_it(suite):
    result = suite()

    result.assert_outcomes(passed=1, skipped=2, xfailed=1)
    result.stdout.fnmatch_lines(["*$PLURIBUS_DATA has no cifar100"])
    result.stdout.fnmatch_lines(
        ["*no-such-program is missing; to install it: apt-get install no-such-program"]
    )


def test_in_ci_a_skip_is_a_failure_but_for_want_of_real_data_and_an_expected_failure_is_none(suite):
    result = suite(ci="true")

    result.assert_outcomes(passed=1, errors=1, skipped=1, xfailed=1)
    result.stdout.fnmatch_lines(["*in CI nothing may be skipped*no-such-program is missing*"])


def test_in_ci_a_skipped_module_is_an_error(suite, pytester):
    pytester.makepyfile(test_module="import pytest\npytest.importorskip('no_such_module')\n")

    result = suite(ci="true", arguments=["test_module.py"])

    result.assert_outcomes(errors=1)


def test_tests_of_real_data_run_where_the_data_are(suite, tmp_path):
    for name in ("train.bin", "test.bin"):
        (tmp_path / "cifar-100-binary").mkdir(exist_ok=True)
        (tmp_path / "cifar-100-binary" / name).touch()

    result = suite(data=str(tmp_path))

    result.assert_outcomes(passed=2, skipped=1, xfailed=1)
