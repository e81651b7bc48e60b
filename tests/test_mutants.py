"""The mutation tool: what it breaks, and that it says so when nobody notices."""

import importlib.util
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parent.parent / "scripts" / "mutants.py"


def loaded():
    spec = importlib.util.spec_from_file_location("mutants_script", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look themselves up there
    spec.loader.exec_module(module)
    return module


tool = loaded()


def broken(source):
    """(letter, after) of each mutant."""
    return [(m.letter, m.after) for m in tool.mutants(source)]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("x = a + b", {"x = a - b"}),
        ("x = a * (b + c)", {"x = a / (b + c)", "x = a * (b - c)"}),
        ("x = -(a + b) * c", {"x = -(a + b) / c", "x = (a + b) * c", "x = -(a - b) * c"}),
        ("x = a < b", {"x = a >= b"}),
        ("x = 3", {"x = 4", "x = 2"}),
        ("x = 0.5", {"x = 1.0", "x = (-0.5)"}),
        ("x = 0.0", {"x = 1.0"}),
        ("x = True", {"x = False"}),
        ("x = not a", {"x = a"}),
        ("x = a and b", {"x = a or b"}),
        ("x = a if c else b", {"x = b if c else a"}),
        ("x = f(a, b)", {"x = f(b, a)"}),
        ("x = torch.maximum(a, b)", set()),
        ("x = a.detach()", {"x = a"}),
        ("x = (a - b).exp() * c", {"x = (a - b).exp() / c", "x = (a - b) * c", "x = (a + b).exp() * c"}),
        ("x = F.softmax(a)", {"x = a"}),
        ("x = a.sum()", {"x = a.mean()"}),
        ("x = {**a, **b}", {"x = {**b}", "x = {**a}"}),
        ("x = [n for n in a if n]", {"x = [n for n in a]"}),
        ("x = client.received", {"x = client.kept"}),
        ("x = upload.examples", {"x = 1"}),
        ("x = self.lam", {"x = (self.lam + 1)"}),
        ("x = self.name", set()),
        ("x = zip(a, b, strict=True)", {"x = zip(b, a, strict=True)"}),
        ("x += a", {"pass", "x -= a"}),
        ("x = g(x)", {"pass"}),
        ("client.load(a)", {"pass"}),
        ("client.tensors('encoder')", {"pass", "client.tensors()"}),
        ("client.fit(loss, epochs=n)", {"pass", "client.fit(epochs=n)"}),
        (
            "client.fit(epochs=n, train=['encoder', 'head'])",
            {
                "pass",
                "client.fit(epochs=n)",
                "client.fit(epochs=n, train=['head'])",
                "client.fit(epochs=n, train=['encoder'])",
            },
        ),
        ("x = f'{a + 1}'", set()),
    ],
)
def test_each_kind_of_line_is_broken_in_its_own_ways(line, expected):
    fields = "class A:\n    lam: float = 0.1\n    name: str = 'a'\n"
    source = f"{fields}    def f(self):\n        {line}  # (a)\n"

    found = broken(source)

    assert {after for _, after in found} == expected
    assert len(found) == len(expected)
    assert {letter for letter, _ in found} <= {"a"}


def test_a_bound_usual_answer_becomes_another_one():
    source = "from .. import usual\n\nclass A:\n    aggregate = usual.mean_by_examples  # (c)\n"

    assert broken(source) == [("c", "aggregate = usual.mean")]


def test_a_usual_answer_that_is_made_becomes_another_one():
    assert ("a", "build = usual.all_shared") in broken("build = usual.all_shared_but('head')  # (a)\n")


def test_an_owner_becomes_another_one_and_is_imported():
    source = "from ..method import personal_part\n\nx = personal_part(y)  # (c)\n"

    (mutant,) = [m for m in tool.mutants(source) if "shared" in m.source]

    assert mutant.key == ("c", "x = personal_part(y)", "x = shared_part(y)")
    assert mutant.source.splitlines()[1] == "from pluribus.method import shared_part"


def test_a_variable_that_is_called_like_a_usual_answer_is_left_alone():
    assert broken("x = mean  # (a)\n") == []


def test_lines_without_a_letter_are_left_alone():
    assert broken("x = 1\ny = 2  # why\nz = a + b  # (a)\n") == [("a", "z = a - b")]


def test_a_letter_at_a_definition_covers_its_body():
    source = "def f(x):  # (b)\n    y = x + 1\n    return y * z\n"

    assert set(broken(source)) == {
        ("b", "y = x - 1"), ("b", "y = x + 2"), ("b", "y = x + 0"), ("b", "return y / z"),
    }  # fmt: skip


def test_the_functions_that_a_lettered_line_names_are_covered_too():
    source = "def loss(x):\n    return x + inner(x)\n\ndef inner(x):\n    return x * y\n\nfit(loss)  # (a)\n"

    assert ("a", "return x - inner(x)") in broken(source)
    assert ("a", "return x / y") in broken(source)


def test_a_letter_inside_a_lettered_function_keeps_its_own_lines():
    source = "def f(x):  # (a)\n    y = x + a  # (b)\n    return y * b\n"

    assert broken(source) == [("b", "y = x - a"), ("a", "return y / b")]


def test_every_mutant_is_a_program_and_differs_from_the_file():
    source = "def f(μ, x):  # (a)\n    return {'ω': μ * x,\n            'b': -x.sum(1)}\n"

    found = list(tool.mutants(source))

    assert len(found) >= 6
    assert len({m.source for m in found} | {source}) == len(found) + 1
    for m in found:
        compile(m.source, "mutant", "exec")


METHOD = '''"""Toy.

    (a) client   y is twice x
    (b) client   and one more
"""


ONE = 1

def f(x):
    y = 2 * x  # (a)
    return y + ONE  # (b)
'''
TEST = "from toy.methods.thing import f\n\ndef test_f():\n    assert f(3) == 7\n"
BLIND = "from toy.methods.thing import f\n\ndef test_f():\n    assert f(0) == 1\n"


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A tree with one method, `thing`, and its test."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # a toy needs no plug-ins and starts faster
    folder = tmp_path / "src" / "toy" / "methods"
    folder.mkdir(parents=True)
    (tmp_path / "src" / "toy" / "__init__.py").touch()
    (folder / "__init__.py").touch()
    (folder / "thing.py").write_text(METHOD)
    (tmp_path / "tests").mkdir()
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")

    def run(test, survivors="", file="src/toy/methods/thing.py"):
        (tmp_path / "tests" / "test_thing.py").write_text(test)
        (tmp_path / "tests" / "survivors.toml").write_text(survivors)
        return tool.main(tmp_path, [file], loaded=())

    return run


def test_all_is_well_if_every_broken_line_is_noticed(toy, capsys):
    result = toy(TEST)

    # 2 * x becomes 2 / x, 3 * x and 1 * x; y + ONE becomes y - ONE
    assert capsys.readouterr().out == "thing: 4 broken, 4 noticed, 0 harmless\n"
    assert result == 0


def test_a_survivor_is_reported_with_its_letter_and_its_line(toy, capsys):
    result = toy(BLIND)

    out = capsys.readouterr().out
    assert result == 1
    assert "thing: 4 broken, 2 noticed, 0 harmless" in out  # 3 * 0 and 1 * 0 are 2 * 0; 2 / 0 is noticed
    assert "SURVIVED (a), src/toy/methods/thing.py:11\n      - y = 2 * x\n      + y = 3 * x\n" in out


def test_a_survivor_with_a_reason_is_harmless_and_a_reason_without_one_is_not(toy, capsys):
    entry = '[[survivor]]\nmethod = "thing"\nletter = "a"\nreason = "x is 0"\nbefore = "y = 2 * x"\n'
    both = f'{entry}after = "y = 3 * x"\n{entry}after = "y = 1 * x"\n'

    assert toy(BLIND, both) == 0
    assert "thing: 4 broken, 2 noticed, 2 harmless" in capsys.readouterr().out

    assert toy(TEST, both) == 1
    assert "excuses what is no survivor: (a) y = 2 * x" in capsys.readouterr().out


def test_tests_that_are_red_before_anything_is_broken_stop_it(toy):
    with pytest.raises(SystemExit, match="thing: its tests are red before anything is broken"):
        toy(TEST.replace("7", "8"))


def test_a_letter_that_stands_at_no_line_is_reported(toy, tmp_path, capsys):
    file = tmp_path / "src" / "toy" / "methods" / "thing.py"
    file.write_text(METHOD.replace("  # (b)", ""))

    assert toy(TEST) == 1
    assert "(b) of the docstring stands at no line that could be broken" in capsys.readouterr().out


def test_a_name_without_a_file_and_a_method_without_a_test_are_errors(toy, tmp_path):
    with pytest.raises(SystemExit, match=r"no such file: src/pluribus/methods/nothing\.py"):
        tool.main(tmp_path, ["nothing"], loaded=())
    with pytest.raises(SystemExit, match="there is no tests/"):
        tool.main(tmp_path, ["src/toy/methods/thing.py"], loaded=())


def test_what_its_own_tests_miss_the_contracts_may_notice(toy, tmp_path):
    contracts = tmp_path / "tests" / "test_every_method.py"

    contracts.parent.mkdir(exist_ok=True)
    contracts.write_text(TEST.replace("test_f", "test_another"))
    assert toy(BLIND) == 1  # -k thing selects nothing here

    contracts.write_text(TEST.replace("test_f", "test_thing"))
    assert toy(BLIND) == 0


def test_a_mutant_that_never_ends_is_noticed_and_the_file_is_put_back(toy, tmp_path):
    assert toy(TEST) == 0  # writes the test
    tried = tool.trial(tmp_path, Path("src/toy/methods/thing.py"))

    with tool.Benches(tmp_path, 1, ()) as benches:
        endless = benches.judged(tried, "while True:\n    pass\n", 1.0)
        after = benches.judged(tried, METHOD, 60.0)

    assert endless.noticed
    assert not after.noticed
