"""One file from the first source that delivers it: resumed, checked, and renamed when it is whole."""

import http.client
import ssl
from io import FileIO
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen
from urllib.response import addinfourl

from ..errors import DataError, DownloadFailed
from .entry import Parcel
from .files import described, md5_of
from .progress import Report

CHUNK = 1 << 16
TIMEOUT = 20.0  # seconds without a byte
IDLE_TRIES = 2  # a source that twice in a row sends nothing new is given up


class Refused(Exception):
    """This source does not deliver the file, and why."""


class BrokeOff(Exception):
    """The connection ended early; what came stays."""


def download(parcel: Parcel, folder: Path, report: Report, *, timeout: float = TIMEOUT) -> Path:
    """The file, whole and of the right checksum, in this folder."""
    part = folder / f"{parcel.name}.part"
    reasons = []
    for url in parcel.urls:
        try:
            delivered(url, parcel, part, report, timeout)
            return part.replace(folder / parcel.name)
        except Refused as reason:
            reasons.append(f"    {url}: {reason}")
    raise DownloadFailed("\n".join([f"no source delivered {parcel.name}", *reasons]))


def delivered(url: str, parcel: Parcel, part: Path, report: Report, timeout: float) -> None:
    """Have this source fill the part file; Refused if it will not."""
    resumed = length(part) > 0
    fill(url, parcel, part, report, timeout)
    found = md5_of(part, as_it_is=True)
    if found == parcel.md5:
        return
    part.unlink()
    if not resumed:
        raise Refused(f"sent a file of md5 {found}; it should be {parcel.md5}")
    delivered(url, parcel, part, report, timeout)  # its beginning may be another source's


def fill(url: str, parcel: Parcel, part: Path, report: Report, timeout: float) -> None:
    """Ask until the part has its full length, for as long as answers bring it further."""
    furthest, idle = length(part), 0
    while length(part) != parcel.size:
        try:
            ask(url, parcel, part, report, timeout)
        except BrokeOff as reason:
            idle = 0 if length(part) > furthest else idle + 1
            furthest = max(furthest, length(part))
            if idle == IDLE_TRIES:
                raise Refused(f"{reason}, after {length(part)} of {parcel.size} bytes") from reason


def ask(url: str, parcel: Parcel, part: Path, report: Report, timeout: float) -> None:
    """One request for what is missing."""
    if length(part) > parcel.size:
        part.unlink()
    have = length(part)
    headers = {"User-Agent": "pluribus", **({"Range": f"bytes={have}-"} if have else {})}
    request = Request(url, headers=headers)  # noqa: S310 - addresses come from the catalogue
    try:
        with urlopen(request, timeout=timeout) as response:  # noqa: S310
            receive(response, parcel, part, have if response.status == 206 else 0, report)
    except HTTPError as error:
        error.close()
        if error.code == 416:
            part.unlink(missing_ok=True)
            raise BrokeOff("has nothing from there on") from error
        raise Refused(f"answered {error.code} {error.reason}") from error
    except URLError as error:
        raise unreachable(error.reason) from error
    except (OSError, http.client.HTTPException) as error:
        raise BrokeOff(f"broke off ({str(error) or type(error).__name__})") from error


def unreachable(reason: object) -> Refused:
    """Why there was no connection."""
    kind = "no safe connection" if isinstance(reason, ssl.SSLError) else "no connection"
    return Refused(f"{kind} ({getattr(reason, 'strerror', None) or reason})")


def receive(response: addinfourl, parcel: Parcel, part: Path, start: int, report: Report) -> None:
    """Write what comes behind the first `start` bytes; never more than the file should have."""
    check(response, parcel, start)
    done = start
    with opened(part, start) as stream:
        while chunk := response.read(CHUNK):
            if done == 0 and described(chunk[:16]) == "a web page":
                raise Refused("sent a web page instead of the file")
            if (done := done + len(chunk)) > parcel.size:
                raise Refused(f"sends more than the {parcel.size} bytes the file has")
            put(stream, chunk, part)
            report(done)
    if done < parcel.size:
        raise BrokeOff("broke off")


def check(response: addinfourl, parcel: Parcel, start: int) -> None:
    """Refused, if the headers announce something else than what is missing of this file."""
    if response.headers.get_content_type() == "text/html":
        raise Refused("sent a web page instead of the file")
    announced = response.headers.get("Content-Length", "")
    if announced.isdigit() and int(announced) != parcel.size - start:
        raise Refused(f"announced {announced} bytes; they should be {parcel.size - start}")
    place = response.headers.get("Content-Range", "")
    if start and place != f"bytes {start}-{parcel.size - 1}/{parcel.size}":
        raise Refused(f"resumed at '{place}' when asked for what follows byte {start}")


def opened(part: Path, start: int) -> FileIO:
    """The part for writing: from zero, or from its end."""
    try:
        part.parent.mkdir(parents=True, exist_ok=True)
        return FileIO(part, "a" if start else "w")
    except OSError as error:
        raise unwritable(part, error) from error


def put(stream: FileIO, chunk: bytes, part: Path) -> None:
    """The chunk on the disk, all of it."""
    rest = memoryview(chunk)
    try:
        while rest:
            rest = rest[stream.write(rest) :]
    except OSError as error:
        raise unwritable(part, error) from error


def unwritable(part: Path, error: OSError) -> DataError:
    return DataError(
        f"{part} cannot be written: {error.strerror or error}\n"
        "    $PLURIBUS_CACHE names another folder; what has come is kept and resumed"
    )


def length(path: Path) -> int:
    """Bytes in the file; 0 if there is none."""
    try:
        return path.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        return 0
