"""What can be wrong for the user. Everything else is a bug and keeps its own exception.

    PluribusError
    ├── SettingError         a setting has a value that cannot be used
    │   └── UnknownName      a name that is in no catalogue
    ├── DataError            files: missing, damaged, not what they say they are
    │   ├── DataNotFound
    │   ├── DataDamaged
    │   └── DownloadFailed
    ├── PartitionError       these data cannot be divided like this
    ├── ModelError           this network cannot be used like this
    ├── MethodError          a method breaks the protocol of methods
    │   └── ClientFailed     a client's turn failed; carries round, client and method
    └── RunError             a run folder, a checkpoint

A message says what is wrong, where, what we got, and what would do.  The first line says it all;
further lines, if any, are indented by four spaces.  The command line prints it and exits with 1.
"""

from collections.abc import Iterable
from difflib import get_close_matches


class PluribusError(Exception):
    """Something the user can put right."""


class SettingError(PluribusError):
    """A setting has a value that cannot be used."""


class UnknownName(SettingError):
    """A name that is in no catalogue."""

    def __init__(self, kind: str, name: str, known: Iterable[str]):
        known = sorted(known)
        close = get_close_matches(name, known, n=1)
        hint = f"; did you mean '{close[0]}'?" if close else ""
        super().__init__(f"no {kind} '{name}'{hint}\n    there are: {', '.join(known) or 'none'}")


class DataError(PluribusError):
    """Files: missing, damaged, or not what they say they are."""


class DataNotFound(DataError):
    """No such data in any of the places we look."""


class DataDamaged(DataError):
    """A file is truncated, has the wrong checksum, or is not what its name says."""


class DownloadFailed(DataError):
    """No source could deliver the file."""


class PartitionError(PluribusError):
    """These data cannot be divided like this."""


class ModelError(PluribusError):
    """This network cannot be used like this."""


class MethodError(PluribusError):
    """A method breaks the protocol of methods."""


class ClientFailed(MethodError):
    """A client's turn failed. The original exception is the cause."""

    def __init__(self, *, method: str, stage: str, round: int, client: str, reason: str):
        self.method, self.stage, self.round, self.client, self.reason = method, stage, round, client, reason
        super().__init__(f"{stage} {round}, client '{client}', {method}: {reason}")

    def __reduce__(self):  # type: ignore[no-untyped-def]  # keyword-only arguments survive a trip between processes
        return _client_failed, (self.method, self.stage, self.round, self.client, self.reason), self.__dict__


def _client_failed(method: str, stage: str, round: int, client: str, reason: str) -> ClientFailed:
    return ClientFailed(method=method, stage=stage, round=round, client=client, reason=reason)


class RunError(PluribusError):
    """A run folder or a checkpoint cannot be used like this."""
