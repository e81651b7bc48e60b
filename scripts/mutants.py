"""Breaks the lettered lines of a method, one at a time, and sees whether a test notices.

    python scripts/mutants.py                        every method of the library
    python scripts/mutants.py fedrep fedper          these
    python scripts/mutants.py tests/gate/fedkd.py    any file with lettered lines

The letters in a method's docstring stand again as comments, `# (a)`, at the lines that do what they say.
Such a comment covers the statement it stands at, with its body and with the functions of the file that it
names.  Each mutant differs from the file in one place there; it is run in a copy of the tree against the
method's own tests, `test_<name>.py`, and then against its contracts in `test_every_method.py`.  A mutant
that nobody notices is a survivor: either a test is missing, or the change is harmless and
`tests/survivors.toml` says why.
"""

import argparse
import ast
import compileall
import importlib
import importlib.util
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tokenize
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NoReturn, Self

ROOT = Path(__file__).resolve().parent.parent
METHODS = Path("src/pluribus/methods")
CONTRACTS = Path("tests/test_every_method.py")
SURVIVORS = Path("tests/survivors.toml")


# what can be broken ------------------------------------------------------------------------------------

OPERATORS = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult, ast.Pow: ast.Mult, ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr,
}  # fmt: skip
COMPARISONS = {
    ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
USUAL = {  # a usual answer, and what stands in its place
    "all_it_shares": "lambda method, server, client, stage: {}",
    "all_personal": "usual.all_shared",
    "all_shared": "usual.all_personal",
    "by_taking_turns": "usual.tuned()",
    "every_round": "lambda method, rounds, rng: usual.every_round(method, rounds, rng)[1:]",
    "initial_parts": "lambda method, initial, clients: usual.Server({})",
    "mean": "usual.mean_by_examples",
    "mean_by_examples": "usual.mean",
    "network_as_received": "usual.none_because('broken')",
    "nothing_to_aggregate": "usual.mean",
}
MADE = {  # usual answers that are called first
    "all_shared_but": "usual.all_shared",
    "none_because": "usual.network_as_received",
    "tuned": "usual.by_taking_turns",
}
OWNERS = {"fixed_part": "shared_part", "personal_part": "shared_part", "shared_part": "personal_part"}
FIELDS = {"received": "kept", "kept": "received", "shared": "memory", "memory": "shared"}
REDUCTIONS = {
    "mean": "sum", "sum": "mean", "max": "min", "min": "max", "argmax": "argmin", "argmin": "argmax",
}  # fmt: skip
UNWRAPPED = {
    "abs", "clamp", "clamp_max", "clamp_min", "detach", "exp", "log", "log1p", "log_softmax", "normalize",
    "relu", "sigmoid", "softmax", "sqrt", "square", "tanh",
}  # fmt: skip
SYMMETRIC = {
    "add", "dot", "l1_loss", "max", "maximum", "min", "minimum", "mse_loss", "mul", "square_distance",
}  # fmt: skip
MODULES = {"F", "math", "np", "torch"}
UNTOUCHED = (ast.JoinedStr, ast.arguments, ast.expr_context, ast.operator)
LETTERS = re.compile(r"\(([a-z])\)")


@dataclass(frozen=True)
class Mutant:
    """A method's file with one place changed, and what the first changed line was and is."""

    letter: str
    line: int
    before: str
    after: str
    source: str

    @property
    def key(self) -> tuple[str, str, str]:
        return self.letter, self.before, self.after


def mutants(source: str) -> Iterator[Mutant]:
    """All ways in which the lettered lines of this file are broken, each once."""
    tree = ast.parse(source)
    known = Known(numbers_of(tree), imported(tree))
    seen = {ast.dump(tree)}
    for letters, node, text in places(source, tree, known):
        changed = replaced(source, node, text)
        meaning = meaning_of(changed)
        if meaning is not None and meaning not in seen:
            seen.add(meaning)
            yield Mutant(letters, *first_difference(source, changed), with_imports(changed, text, tree))


def places(source: str, tree: ast.Module, known: "Known") -> Iterator[tuple[str, ast.AST, str]]:
    """Letters, a node, and what to write in its place: small statements before those that hold them."""
    statements = lettered(source, tree)
    for letters, statement in sorted(statements, key=lambda pair: last_line(pair[1]) - first_line(pair[1])):
        yield from ((letters, *change) for change in changes(statement, known))
    for letters, statement in statements:
        for function in functions_named(statement, tree):
            yield from ((letters, *change) for change in changes(function, known))


@dataclass(frozen=True)
class Known:
    """What a file knows by name."""

    numbers: frozenset[str]  # fields annotated as int or float
    imported: frozenset[str]


def numbers_of(tree: ast.Module) -> frozenset[str]:
    fields = (s for s in ast.walk(tree) if isinstance(s, ast.AnnAssign))
    return frozenset(ast.unparse(f.target) for f in fields if ast.unparse(f.annotation) in ("int", "float"))


def imported(tree: ast.Module) -> frozenset[str]:
    origins = (n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom))
    return frozenset(alias.asname or alias.name for n in origins for alias in n.names)


def lettered(source: str, tree: ast.Module) -> list[tuple[str, ast.stmt]]:
    """Each lettered statement with its letters: the innermost that the comment's line belongs to."""
    statements = [s for s in ast.walk(tree) if isinstance(s, ast.stmt)]
    found: dict[ast.stmt, str] = {}
    for line, letters in letters_at(source).items():
        around = [s for s in statements if first_line(s) <= line <= last_line(s)]
        if around:
            statement = min(around, key=lambda s: last_line(s) - first_line(s))
            found[statement] = "".join(sorted({*found.get(statement, ""), *letters}))
    return [(letters, statement) for statement, letters in found.items()]


def functions_named(statement: ast.stmt, tree: ast.Module) -> list[ast.FunctionDef]:
    """The functions of this file that the statement names, and those that these name."""
    functions = {f.name: f for f in ast.walk(tree) if isinstance(f, ast.FunctionDef)}
    found: list[ast.FunctionDef] = []
    waiting: list[ast.stmt] = [statement]
    while waiting:
        named = (functions[n] for n in sorted(names_in(waiting.pop()) & functions.keys()))
        new = [f for f in named if f not in (*found, statement)]
        found += new
        waiting += new
    return found


def letters_at(source: str) -> dict[int, str]:
    """The letters that stand as comments, by line: `# (a)`, `# (b), (c)`."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = {t.start[0]: t.string for t in tokens if t.type == tokenize.COMMENT}
    return {
        n: "".join(LETTERS.findall(text)) for n, text in comments.items() if re.match(r"# \([a-z]\)", text)
    }


def letters_of(source: str) -> str:
    """The letters with which lines of the docstring begin."""
    return "".join(re.findall(r"^\s*\(([a-z])\)", ast.get_docstring(ast.parse(source)) or "", re.MULTILINE))


def first_line(node: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(d.lineno for d in decorators)])


def last_line(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno


def changes(statement: ast.stmt, known: Known) -> Iterator[tuple[ast.AST, str]]:
    """Nodes of this statement and what to write in their place."""
    for node in inside(statement):
        match node:
            case ast.stmt():
                texts = other_statement(node)
            case ast.Attribute(value=ast.Name("self"), attr=name) if name in known.numbers:
                texts = iter([f"self.{name} + 1"])
            case ast.Attribute(value=ast.Name("usual"), attr=name) if name in USUAL:
                texts = iter([USUAL[name]])
            case ast.Name(id=name) if name in OWNERS and name in known.imported:
                texts = iter([OWNERS[name]])
            case ast.Call():
                texts = other_call(node)
            case ast.expr():
                texts = other_expression(node)
            case _:
                texts = iter([])
        yield from ((node, text) for text in texts)


def inside(node: ast.AST) -> Iterator[ast.AST]:
    """The node and all below it, but no types, signatures and f-strings: breaking those tells nothing."""
    yield node
    for name, value in ast.iter_fields(node):
        if name not in ("annotation", "returns", "decorator_list"):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and not isinstance(child, UNTOUCHED) and not guards(child):
                    yield from inside(child)


def guards(node: ast.AST) -> bool:
    """`strict=True` of a zip, like an assertion, says what cannot happen: no number feels it."""
    return isinstance(node, ast.keyword) and node.arg == "strict"


def other_statement(node: ast.stmt) -> Iterator[str]:
    match node:
        case ast.Expr(value=ast.Constant()) | ast.Expr(value=ast.Yield()):
            return
        case ast.Expr() | ast.AugAssign() | ast.For() | ast.While() | ast.If() | ast.Delete() | ast.Raise():
            yield "pass"
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield "pass"
        case ast.Assign(targets=[ast.Name(name)], value=value) if name in names_in(value):
            yield "pass"
    match node:
        case ast.AugAssign(op=op) if type(op) in OPERATORS:
            yield written(node, op=OPERATORS[type(op)]())


def other_call(node: ast.Call) -> Iterator[str]:
    name = called(node.func)
    if ast.unparse(node.func) == f"usual.{name}" and name in MADE:
        yield MADE[name]
    if isinstance(node.func, ast.Attribute) and name in UNWRAPPED:
        on_module = isinstance(node.func.value, ast.Name) and node.func.value.id in MODULES
        yield ast.unparse(node.args[0] if on_module and node.args else node.func.value)
    if isinstance(node.func, ast.Attribute) and name in REDUCTIONS:
        yield written(node, func=ast.Attribute(node.func.value, REDUCTIONS[name], ast.Load()))
    for i, argument in enumerate(node.args):
        if name == "fit" or is_word(argument):
            yield written(node, args=without(node.args, i))
    match node.args:
        case [first, second, *rest] if name not in SYMMETRIC and not isinstance(second, ast.Starred):
            yield written(node, args=[second, first, *rest])
    for i, keyword in enumerate(node.keywords):
        if keyword.arg not in (None, "epochs") and not guards(keyword):
            yield written(node, keywords=without(node.keywords, i))


def other_expression(node: ast.expr) -> Iterator[str]:  # noqa: C901, PLR0912  # a table, one line a kind of node
    match node:
        case ast.BinOp(op=op) if type(op) in OPERATORS:
            yield written(node, op=OPERATORS[type(op)]())
        case ast.UnaryOp(op=ast.USub(), operand=operand) if not isinstance(operand, ast.Constant):
            yield ast.unparse(operand)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield ast.unparse(operand)
        case ast.BoolOp(op=op):
            yield written(node, op=ast.Or() if isinstance(op, ast.And) else ast.And())
        case ast.Compare(ops=[op]) if type(op) in COMPARISONS:
            yield written(node, ops=[COMPARISONS[type(op)]()])
        case ast.IfExp(body=body, orelse=orelse):
            yield written(node, body=orelse, orelse=body)
        case ast.Constant(value=value):
            yield from map(repr, other_values(value))
        case ast.Attribute(attr="examples"):
            yield "1"
        case ast.Attribute(value=value, attr=name, ctx=ast.Load()) if name in FIELDS:
            yield f"{ast.unparse(value)}.{FIELDS[name]}"
        case ast.Dict(keys=keys, values=values) if len(keys) > 1:
            for i in range(len(keys)):
                yield written(node, keys=without(keys, i), values=without(values, i))
        case ast.List(elts=items) | ast.Tuple(elts=items) if len(items) > 1 and all(map(is_word, items)):
            for i in range(len(items)):
                yield written(node, elts=without(items, i))
        case ast.ListComp() | ast.GeneratorExp() | ast.DictComp() | ast.SetComp():
            unfiltered = [ast.comprehension(g.target, g.iter, [], g.is_async) for g in node.generators]
            yield written(node, generators=unfiltered)


def other_values(value: object) -> list[object]:
    match value:
        case bool():
            return [not value]
        case int():
            return [value + 1, value - 1]
        case float():
            return [2 * value, -value] if value else [1.0]
        case _:
            return []


def is_word(node: ast.AST) -> bool:
    """A string that names something, such as a part."""
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier()


def called(function: ast.expr) -> str:
    """The last name of what is called: `fit` of `client.fit`."""
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def names_in(node: ast.AST) -> set[str]:
    """All names in it, also those behind `self.`."""
    plain = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    attributes = (n for n in ast.walk(node) if isinstance(n, ast.Attribute))
    return plain | {n.attr for n in attributes if isinstance(n.value, ast.Name) and n.value.id == "self"}


def without(items: Sequence[Any], i: int) -> list[Any]:
    return [*items[:i], *items[i + 1 :]]


# how a change is written --------------------------------------------------------------------------------


def written(node: ast.AST, **fields: object) -> str:
    """The node's source with these fields instead of its own."""
    new = type(node)(**dict(ast.iter_fields(node)) | fields)
    return ast.unparse(ast.fix_missing_locations(new))


def replaced(source: str, node: ast.AST, text: str) -> str:
    """The source with this text where the node stood; positions in `ast` count bytes."""
    assert isinstance(node, ast.stmt | ast.expr)
    lines = source.encode().splitlines(keepends=True)
    begin = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
    end = sum(map(len, lines[: (node.end_lineno or 0) - 1])) + (node.end_col_offset or 0)
    whole = b"".join(lines)
    return (whole[:begin] + fitting(node, text).encode() + whole[end:]).decode()


def fitting(node: ast.stmt | ast.expr, text: str) -> str:
    """The text, in parentheses if it is another kind of expression than the node and binds less."""
    if isinstance(node, ast.stmt):
        return text
    new = ast.parse(text, mode="eval").body
    loose = isinstance(new, ast.BinOp | ast.BoolOp | ast.Compare | ast.IfExp | ast.Lambda | ast.UnaryOp)
    return f"({text})" if loose and type(new) is not type(node) else text


def with_imports(source: str, text: str, tree: ast.Module) -> str:
    """The source in which the owner that the new text names is known."""
    wanted = sorted({text} & set(OWNERS) - imported(tree))
    imports = [n for n in tree.body if isinstance(n, ast.Import | ast.ImportFrom)]
    if not wanted or not imports:
        return source
    lines = source.splitlines(keepends=True)
    lines.insert(last_line(imports[-1]), f"from pluribus.method import {', '.join(wanted)}\n")
    return "".join(lines)


def meaning_of(source: str) -> str | None:
    """What the source means; None if it means nothing."""
    try:
        return ast.dump(ast.parse(source))
    except SyntaxError:
        return None


def first_difference(old: str, new: str) -> tuple[int, str, str]:
    """The number of the first line that differs, what it was and what it is, without comments."""
    pairs = enumerate(zip(old.splitlines(), new.splitlines(), strict=False), 1)
    return next((n, bare(before), bare(after)) for n, (before, after) in pairs if before != after)


def bare(line: str) -> str:
    return re.sub(r"\s+# \([a-z]\).*", "", line).strip()


# whether somebody notices -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Verdict:
    noticed: bool
    output: str


@dataclass(frozen=True)
class Trial:
    """A method's file, and the tests that should notice."""

    file: Path  # within the tree
    tests: tuple[tuple[str, ...], ...]  # arguments of pytest, one run each

    @property
    def name(self) -> str:
        return self.file.stem


def trial(root: Path, file: Path) -> Trial:
    """The file with its own tests first and its contracts second."""
    own = sorted(str(p.relative_to(root)) for p in (root / "tests").rglob(f"test_{file.stem}.py"))
    if not own:
        raise SystemExit(f"{file}: there is no tests/**/test_{file.stem}.py that could notice anything")
    contracts = [(str(CONTRACTS), "-k", file.stem.replace("_", "-"))] if (root / CONTRACTS).exists() else []
    return Trial(file, (tuple(own), *contracts))


class Bench:
    """A copy of the tree in which one file at a time is broken, and a process there that runs the tests.

    The process has loaded what is slow to load, and forks for each run.
    """

    def __init__(self, root: Path, loaded: Sequence[str]):
        self.folder = tempfile.TemporaryDirectory(prefix="mutants-")
        self.tree = Path(self.folder.name)
        for name in ("src", "tests"):
            shutil.copytree(root / name, self.tree / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(root / "pyproject.toml", self.tree)
        compileall.compile_dir(self.tree / "src", quiet=1)
        # Nothing more is compiled: two versions of one second and one length would pass for the same.
        env = {"PYTHONPATH": str(self.tree / "src"), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
        command = [sys.executable, str(Path(__file__).resolve()), "--serve", *loaded]
        self.process = subprocess.Popen(
            command,
            cwd=self.tree,
            env=os.environ | env,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def judged(self, tried: Trial, source: str, seconds: float) -> Verdict:
        """Whether the tests of this trial notice this source."""
        file = self.tree / tried.file
        original = file.read_text()
        Path(importlib.util.cache_from_source(str(file))).unlink(missing_ok=True)
        file.write_text(source)
        try:
            for arguments in tried.tests:
                verdict = self.run(arguments, seconds)
                if verdict.noticed:
                    return verdict
            return verdict
        finally:
            file.write_text(original)

    def run(self, arguments: Sequence[str], seconds: float) -> Verdict:
        """One run of pytest in the tree; none selected is none that noticed, and too long is noticed."""
        plain = ("-x", "-q", "--no-header", "--tb=line", "-p", "no:randomly", "-p", "no:cacheprovider")
        assert self.process.stdin
        assert self.process.stdout
        print(json.dumps([[*plain, *arguments], seconds]), file=self.process.stdin, flush=True)
        code, output = json.loads(self.process.stdout.readline())
        return Verdict(noticed=code not in (0, 5), output=output)

    def close(self) -> None:
        self.process.communicate()
        self.folder.cleanup()


def serve(loaded: Sequence[str]) -> None:
    """Runs pytest in a fork for each line that comes in."""
    for name in ("pytest", *loaded):
        importlib.import_module(name)
    for line in sys.stdin:
        arguments, seconds = json.loads(line)
        print(json.dumps(forked(arguments, seconds)), flush=True)


def forked(arguments: list[str], seconds: float) -> tuple[int, str]:
    """The exit code of pytest, -9 if it took longer than allowed, and what it wrote."""
    with tempfile.TemporaryFile() as written_to:
        child = os.fork()
        if child == 0:
            run_and_exit(arguments, written_to.fileno())
        code = waited(child, seconds)
        written_to.seek(0)
        return code, written_to.read().decode(errors="replace")


def run_and_exit(arguments: list[str], output: int) -> NoReturn:
    code = 70
    try:
        os.setsid()  # so that all it starts can be ended with it
        os.dup2(output, 1)
        os.dup2(output, 2)
        code = int(importlib.import_module("pytest").main(arguments))
        sys.stdout.flush()
    finally:
        os._exit(code)


def waited(child: int, seconds: float) -> int:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -signal.SIGKILL


class Benches:
    """Some benches, each used by one thread at a time."""

    def __init__(self, root: Path, workers: int, loaded: Sequence[str]):
        self.all = [Bench(root, loaded) for _ in range(workers)]
        self.free: SimpleQueue[Bench] = SimpleQueue()
        for bench in self.all:
            self.free.put(bench)

    def judged(self, tried: Trial, source: str, seconds: float) -> Verdict:
        """The verdict, from a bench that nobody else is using."""
        bench = self.free.get()
        try:
            return bench.judged(tried, source, seconds)
        finally:
            self.free.put(bench)

    def survivors(self, tried: Trial, source: str, found: Sequence[Mutant]) -> list[Mutant]:
        """The mutants that nobody notices; stops if the tests are red before anything is broken."""
        begin = time.monotonic()
        baseline = self.judged(tried, source, 600)
        if baseline.noticed:
            raise SystemExit(f"{tried.name}: its tests are red before anything is broken\n{baseline.output}")
        seconds = 30 + 5 * (time.monotonic() - begin)
        with ThreadPoolExecutor(len(self.all)) as pool:
            verdicts = list(pool.map(lambda m: self.judged(tried, m.source, seconds), found))
        return [m for m, verdict in zip(found, verdicts, strict=True) if not verdict.noticed]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for bench in self.all:
            bench.close()


# what is said about it ----------------------------------------------------------------------------------


def excused(root: Path, name: str) -> dict[tuple[str, str, str], str]:
    """The survivors of this method that are known to be harmless, with the reasons."""
    file = root / SURVIVORS
    entries = tomllib.loads(file.read_text()).get("survivor", []) if file.exists() else []
    return {(e["letter"], e["before"], e["after"]): e["reason"] for e in entries if e["method"] == name}


def examined(root: Path, file: Path, benches: Benches) -> bool:
    """Prints what became of the mutants of one file; whether all is well."""
    source, tried = (root / file).read_text(), trial(root, file)
    found = list(mutants(source))
    unbroken = [a for a in letters_of(source) if not any(a in m.letter for m in found)]
    alive, reasons = benches.survivors(tried, source, found), excused(root, tried.name)
    harmless = [m for m in alive if m.key in reasons]
    unknown = [m for m in alive if m.key not in reasons]
    stale = reasons.keys() - {m.key for m in alive}

    print(f"{tried.name}: {len(found)} broken, {len(found) - len(alive)} noticed, {len(harmless)} harmless")
    for m in harmless:
        print(f"    harmless ({m.letter}): {reasons[m.key]}\n      - {m.before}\n      + {m.after}")
    for m in unknown:
        print(f"    SURVIVED ({m.letter}), {file}:{m.line}\n      - {m.before}\n      + {m.after}")
    for letter, before, _ in sorted(stale):
        print(f"    {SURVIVORS} excuses what is no survivor: ({letter}) {before}")
    for letter in unbroken:
        print(f"    ({letter}) of the docstring stands at no line that could be broken")
    return not (unknown or stale or unbroken)


def files_named(root: Path, names: Sequence[str]) -> list[Path]:
    """The files of these methods; of all, if none is named."""
    if not names:
        return sorted(p.relative_to(root) for p in (root / METHODS).glob("*.py") if p.stem != "__init__")
    files = [Path(n) if n.endswith(".py") else METHODS / f"{n}.py" for n in names]
    if missing := [str(f) for f in files if not (root / f).exists()]:
        raise SystemExit(f"no such file: {', '.join(missing)}")
    return files


def main(
    root: Path = ROOT, arguments: Sequence[str] | None = None, loaded: Sequence[str] = ("torch",)
) -> int:
    """0 if every broken line is noticed or known to be harmless, else 1."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="METHOD", help="names of methods, or files; all if none")
    parser.add_argument("--workers", type=int, default=2, help="how many are tried at a time (2)")
    options = parser.parse_args(arguments)
    files = files_named(root, options.names)
    with Benches(root, options.workers, loaded) as benches:
        results = [examined(root, file, benches) for file in files]
    return 0 if all(results) else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2:])
    else:
        sys.exit(main())
