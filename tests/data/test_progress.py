"""A download is seen in a terminal and in a log file."""

import io

from rich.console import Console

from pluribus.data.progress import bar, lines, progress


def test_a_log_file_gets_a_line_at_the_start_and_at_each_quarter():
    console = Console(file=io.StringIO())

    with lines("mnist", 4_000_000, console) as report:
        for done in (1, 1_000_000, 1_000_001, 3_500_000, 4_000_000):
            report(done)

    assert console.file.getvalue().splitlines() == [
        "mnist: fetching 4.0 MB",
        "mnist: 1.0 MB of 4.0 MB",
        "mnist: 3.5 MB of 4.0 MB",
        "mnist: 4.0 MB of 4.0 MB",
    ]


def test_a_terminal_gets_a_bar():
    console = Console(file=io.StringIO(), force_terminal=True, width=100)

    with bar("mnist", 4_000_000, console) as report:
        report(2_000_000)
        report(4_000_000)

    assert "4.0/4.0 MB" in console.file.getvalue()


def test_nothing_of_it_goes_to_stdout(capsys):
    with progress("mnist", 10) as report:
        report(10)

    printed = capsys.readouterr()
    assert printed.out == ""
    assert "mnist: fetching 0.0 MB" in printed.err
