"""What a terminal shows of a run while it goes on."""

from io import StringIO

from rich.console import Console
from rich.progress import Progress, TextColumn

from pluribus.cli.display import Live
from pluribus.runs import run
from pluribus.settings import Settings

SETTINGS = Settings(method="fedprox:mu=0", data="digits", clients=4, model="mlp:16", rounds=2)


def test_a_bar_shows_rounds_and_readings_and_warnings_stand_above_it(tmp_path):
    terminal = StringIO()
    columns = TextColumn("{task.completed}/{task.total}"), TextColumn("{task.fields[readings]}")
    with Progress(*columns, console=Console(file=terminal, force_terminal=True, width=120)) as progress:
        result = run(SETTINGS, out=tmp_path / "mine", listener=Live(progress))

    shown = terminal.getvalue()
    assert "2/2" in shown
    assert f"P {100 * result.personal.last:.1f}" in shown
    assert "without the pull this is FedAvg" in shown
