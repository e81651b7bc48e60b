"""`pluribus bench`, from beginning to end: the engine and the bare loop as processes, in turns."""

import json

import pytest

from pluribus.cli.bench import bench
from pluribus.errors import UnknownName


def test_a_quick_bench_measures_whole_rounds_of_both_sides(capfd):
    bench(quick=True, repeats=2, workers=1, json=True, quiet=True)

    out, err = capfd.readouterr()
    shown = json.loads(out)
    assert err == ""
    assert (shown["setting"], shown["data"]) == ("tiny", "real")
    assert shown["ratio"] == shown["ratios"]["bare"]["median"] > 0
    assert [len(shown["laps"][side]) for side in ("engine", "bare")] == [2, 2]
    assert shown["gflops"] > 0
    assert shown["product_gflops"] > 0


def test_a_setting_that_there_is_not_is_named():
    with pytest.raises(UnknownName, match="did you mean 'fmnist-cnn'?"):
        bench("fmnist-cn")
