"""Writes the parts of README.md that are made from something else; a test fails when one is stale.

python scripts/docs.py                    from the catalogue and results/demo
python scripts/docs.py --demo runs/demo   takes over a demo's table and picture into results/demo first
"""

import re
import shutil
import sys
from pathlib import Path

from pluribus.report.catalogue import methods_table
from pluribus.report.table import as_markdown

ROOT = Path(__file__).resolve().parent.parent
DEMO = ROOT / "results" / "demo"
KEPT = ("comparison.md", "picture.svg")


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["--demo"]:
        take_over(Path(arguments[1]))
    readme = ROOT / "README.md"
    readme.write_text(filled(readme.read_text()))


def take_over(folder: Path) -> None:
    DEMO.mkdir(parents=True, exist_ok=True)
    for name in KEPT:
        shutil.copyfile(folder / name, DEMO / name)


def filled(text: str) -> str:
    """The README with every generated part made anew."""
    for name, part in {"demo": demo(), "methods": as_markdown(methods_table())}.items():
        before, opening, rest = re.split(rf"(<!-- {name}: [^\n]* -->\n)", text)
        closing = f"<!-- /{name} -->"
        text = f"{before}{opening}\n{part.strip()}\n\n{closing}{rest.partition(closing)[2]}"
    return text


def demo() -> str:
    table = (DEMO / "comparison.md").read_text()
    return f"{table}\n\n![G against P](results/demo/picture.svg)"


if __name__ == "__main__":
    main(sys.argv[1:])
