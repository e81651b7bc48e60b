"""What becomes of an error: a paragraph on stderr, and an exit code.

0    done
1    you can fix it: a setting, a file, an option
3    we must: a fault in Pluribus; a log with versions and traceback is written
130  interrupted
"""

from __future__ import annotations

import errno
import os
import platform
import shlex
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import metadata
from pathlib import Path

from typer import Abort, Exit
from typer.exceptions import TyperException

from ..errors import PluribusError
from .printing import complain, warn

DONE, YOURS, OURS, INTERRUPTED = 0, 1, 3, 130
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def exit_code(work: Callable[[], object], command: Sequence[str]) -> int:
    """Does the work; what it ends with, as an exit code, and said on stderr unless it is 0."""
    try:
        with warnings_told():
            work()
            sys.stdout.flush()
        return DONE
    except Exit as end:
        return end.exit_code
    except (KeyboardInterrupt, Abort) as stop:
        complain(str(stop) or "interrupted")
        return INTERRUPTED
    except TyperException as error:
        return usage_error(error)
    except PluribusError as error:
        complain(str(error))
        return YOURS
    except BrokenPipeError:
        say_no_more()
        return DONE
    except OSError as error:
        return full_disk(error) if error.errno in FULL else our_fault(error, command)
    except Exception as error:  # noqa: BLE001  # whatever it is, no traceback reaches the user
        return our_fault(error, command)


def say_no_more() -> None:
    """Nobody takes what is left on stdout, and the interpreter flushes it once more."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def full_disk(error: OSError) -> int:
    """There is no room for a file, or for what goes to stdout."""
    try:
        sys.stdout.flush()
    except OSError:
        say_no_more()
    complain(
        f"cannot write {error.filename or 'the output'}: {error.strerror}\n    make room and start it again"
    )
    return YOURS


def usage_error(error: TyperException) -> int:
    """An unknown verb or option, or a value of the wrong type."""
    message = " ".join(error.format_message().split())
    context = getattr(error, "ctx", None)
    where = f"\n    {context.command_path} --help says what there is" if context else ""
    complain(f"{message[:1].lower()}{message[1:].rstrip('.')}{where}")
    return YOURS


def our_fault(error: Exception, command: Sequence[str]) -> int:
    """A log is written; the paragraph says where."""
    reason = str(error).strip().split("\n")[0]
    complain(
        f"a fault in Pluribus, {type(error).__name__}: {reason or 'without a message'}"
        f"\n    {where_logged(report(error, command))}"
    )
    return OURS


def report(error: Exception, command: Sequence[str]) -> str:
    """What somebody needs who looks for the fault."""
    versions = {name: version(name) for name in ("pluribus", "torch", "numpy", "typer", "safetensors")}
    lines = [f"pluribus {shlex.join(command)}", f"python {platform.python_version()}, {platform.platform()}"]
    lines += [f"{name} {number}" for name, number in versions.items()]
    return "\n".join([*lines, "", "".join(traceback.format_exception(error))])


def version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def where_logged(text: str) -> str:
    """The last line of the paragraph: where the log is, or that it could not be written."""
    try:
        descriptor, name = tempfile.mkstemp(prefix="pluribus-", suffix=".log", text=True)
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
    except OSError as error:
        sys.stderr.write(text)
        return f"no log could be written ({error.strerror}); what it would hold stands above"
    return f"please report it with this log: {Path(name)}"


@contextmanager
def warnings_told() -> Iterator[None]:
    """Inside, the library's warnings are lines on stderr, each once; those of others are not ours to tell."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("once", category=UserWarning, module=r"pluribus\b")
        warnings.showwarning = lambda message, *_, **__: warn(str(message))
        yield
