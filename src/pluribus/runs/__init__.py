"""A run and what it leaves behind: a folder from which it can be repeated, gone on with, and read.

result = run(Settings(method="fedper", data="digits"))
result = resume(result.run_dir)
"""

from .brake import Interrupted
from .contents import members_of, result_in, rounds_in
from .folder import RUNS
from .listener import Listener
from .records import Line, Member, Reading, Result
from .run import reopen, resume, run, usual_name

__all__ = [
    "RUNS",
    "Interrupted",
    "Line",
    "Listener",
    "Member",
    "Reading",
    "Result",
    "members_of",
    "reopen",
    "result_in",
    "resume",
    "rounds_in",
    "run",
    "usual_name",
]
