"""Checkpoints: what is true after a round, on the disk, so that a killed run goes on to the same bits.

    000012.server.safetensors    what the server knows
    000012.clients.safetensors   a pack: what those clients keep that changed since the checkpoint before;
                                 what is too large for one goes on in 000012.clients-2.safetensors
    000012.json                  the manifest: names, sizes and sums of these and of older packs; written last

A client's state is in the newest pack that has it, so that a checkpoint costs as much as its cohorts and not
as all clients.  Packs that are mostly out of date, or small and many, go on in the new one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
from torch import Tensor

from ..engine import Round
from ..errors import RunError
from ..ledger import Held, Ledger
from ..method import Server
from ..stage import Stage
from ..state import Tensors, num_bytes
from ..store import Store
from .bundle import pack, unpack
from .folder import settle, told, write

FORMAT = "pluribus checkpoint 1"
MANY = 8  # packs of about the same size
PACK = 2**28  # bytes of one, unless a single client has more


class Piece(msgspec.Struct, frozen=True):
    """A file that a manifest names."""

    name: str
    size: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """One checkpoint."""

    format: str
    settings: str  # hashes of what the run was
    partition: str
    stages: int  # of the plan that are done
    exchanges: int
    barren: int
    stage: Stage
    server: Piece
    packs: list[Piece]  # the oldest first


class Sealed(msgspec.Struct, frozen=True):
    """A manifest with its own sum."""

    sha256: str
    manifest: msgspec.Raw


class Note(msgspec.Struct, frozen=True):
    """One client of a pack; `place` is where it stands in what the server knows of each, if it does."""

    id: str
    since: int
    owes: tuple[int, ...]
    place: int | None


class Unusable(Exception):
    """A checkpoint that cannot be gone on from, and why."""


@dataclass(frozen=True)
class Entry:
    """All that is known of one client."""

    held: Held
    place: int | None
    of: Tensors


Pack = tuple[Piece, dict[str, Entry]]


class Checkpoints:
    """The last two checkpoints of a run, in its folder."""

    def __init__(self, folder: Path, settings: str, partition: str, store: Store | None = None):
        self.folder, self.settings, self.partition = folder, settings, partition
        self.store = store or Store()  # where what comes back is to lie
        self.trusted: list[Manifest] = []
        self.pieces: dict[str, Piece] = {}  # packs, the oldest first
        self.sizes: dict[str, int] = {}  # clients in each as it was written
        self.current: dict[str, set[str]] = {}  # clients whose state is in this pack and in none after it
        self.pack_of: dict[str, str] = {}
        self.ledger = Ledger()
        self.known: dict[str, tuple[int, Tensors]] = {}  # of each client by the server, with its place
        self.touched: set[str] = set()

    # saving -------------------------------------------------------------------------------------------

    def saw(self, now: Round) -> None:
        """These clients may have changed; to be told of every stage."""
        self.touched |= set(now.cohort)

    def save(self, now: Round) -> None:
        """What holds now, as the newest checkpoint; the one before stays, older ones go."""
        if not self.folder.exists():
            with told(self.folder):
                self.folder.mkdir()
            settle(self.folder.parent)
        assert now.stage is not None
        name = f"{now.number:06d}.server.safetensors"
        server = self.written(name, [now.server.shared, now.server.memory], [])
        self.save_clients(now)
        manifest = Manifest(
            format=FORMAT,
            settings=self.settings,
            partition=self.partition,
            stages=now.number,
            exchanges=now.exchanges,
            barren=now.barren,
            stage=now.stage,
            server=server,
            packs=list(self.pieces.values()),
        )
        body = msgspec.json.encode(manifest)
        sealed = Sealed(hashlib.sha256(body).hexdigest(), msgspec.Raw(body))
        write(self.path_of(manifest), msgspec.json.encode(sealed))
        settle(self.folder)
        self.trusted = [*[m for m in self.trusted if m.stages != manifest.stages][-1:], manifest]
        self.sweep()

    def save_clients(self, now: Round) -> None:
        """The pack of those that changed and of those that move to it."""
        known = {k: (place, tensors) for place, (k, tensors) in enumerate(now.server.of.items())}
        changed = {k for k in self.touched if now.held.of(k) is not self.ledger.of(k)}
        changed |= {k for k in known.keys() | self.known.keys() if differ(known.get(k), self.known.get(k))}
        self.ledger, self.known, self.touched = now.held, known, set()
        if not changed:
            return
        clients = sorted(self.moved(changed))
        entries = ((k, Entry(now.held.of(k), *known.get(k, (None, {})))) for k in clients)
        for number, some in enumerate(portions(entries), start=1):
            name = f"{now.number:06d}.clients{f'-{number}' if number > 1 else ''}.safetensors"
            groups = [group for e in some.values() for group in (e.held.kept, e.held.trained, e.of)]
            notes = [Note(k, e.held.since, e.held.owes, e.place) for k, e in some.items()]
            self.add(self.written(name, groups, notes), list(some))

    def moved(self, changed: Iterable[str]) -> set[str]:
        """The clients of the new pack; packs that lose all theirs are gone."""
        new = set(changed)
        for client in new & self.pack_of.keys():
            self.current[self.pack_of[client]].discard(client)
        while outworn := self.outworn(len(new)):
            for name in outworn:
                new |= self.current.pop(name)
                del self.pieces[name], self.sizes[name]
        return new

    def outworn(self, size: int) -> list[str]:
        """Packs that are mostly out of date; or those no larger than twice the new one, if they are many."""
        mostly = [name for name, clients in self.current.items() if 2 * len(clients) <= self.sizes[name]]
        small = [name for name, clients in self.current.items() if len(clients) < 2 * size]
        return mostly or (small if len(small) >= MANY else [])

    def add(self, piece: Piece, clients: Sequence[str]) -> None:
        """Counts the pack in; what older ones say of its clients is out of date."""
        for client in clients:
            if older := self.pack_of.get(client):
                self.current.get(older, set()).discard(client)
            self.pack_of[client] = piece.name
        self.pieces[piece.name], self.sizes[piece.name] = piece, len(clients)
        self.current[piece.name] = set(clients)

    def written(self, name: str, groups: Sequence[Tensors], notes: Sequence[Note]) -> Piece:
        data = pack(groups, msgspec.Raw(msgspec.json.encode(notes)))
        write(self.folder / name, data)
        return Piece(name, len(data), hashlib.sha256(data).hexdigest())

    def path_of(self, manifest: Manifest) -> Path:
        return self.folder / f"{manifest.stages:06d}.json"

    def sweep(self) -> None:
        """Removes what none of the last two checkpoints names."""
        named = {piece.name for m in self.trusted for piece in (m.server, *m.packs)}
        named |= {self.path_of(m).name for m in self.trusted}
        with told(self.folder):
            for path in self.folder.iterdir():
                if path.suffix in (".json", ".safetensors", ".part") and path.name not in named:
                    path.unlink(missing_ok=True)

    def are_of(self, manifest: Manifest) -> bool:
        """Whether a checkpoint is of these settings and this division."""
        return (manifest.settings, manifest.partition) == (self.settings, self.partition)

    # going on -----------------------------------------------------------------------------------------

    def latest(self, *, usable: Callable[[Manifest], str]) -> tuple[Round | None, list[str]]:
        """What held at the newest checkpoint that is whole, and a note on each that is not.

        `usable` says what else is wrong with one.  None if no checkpoint was ever written.
        """
        problems: list[str] = []
        for path in sorted(self.folder.glob("*.json"), key=lambda p: (len(p.name), p.name), reverse=True):
            try:
                return self.restored(path, usable), problems
            except Unusable as error:
                problems.append(f"checkpoint {path.stem} cannot be used: {error}")
        if problems:
            settings = self.folder.parent / "settings.toml"
            raise RunError(
                "; ".join(problems) + "\n    nothing was deleted; to begin anew: "
                f"pluribus run --config {settings}"
            )
        return None, []

    def restored(self, path: Path, usable: Callable[[Manifest], str]) -> Round:
        manifest = self.manifest_in(path)
        if why := usable(manifest):
            raise Unusable(why)
        (shared, memory), _ = self.read(manifest.server)
        packs = [(piece, self.stored(entries(*self.read(piece)))) for piece in manifest.packs]
        return self.taken_up(manifest, Server(shared, memory), packs)

    def stored(self, clients: Iterable[tuple[str, Entry]]) -> dict[str, Entry]:
        """The clients of a pack, where there is room for what they keep."""
        return {k: replace(e, held=self.held(k, e.held)) for k, e in clients}

    def held(self, client: str, held: Held) -> Held:
        kept = self.store.keep(("kept", client), held.kept)
        return replace(held, kept=kept, trained=self.store.keep(("trained", client), held.trained))

    def taken_up(self, last: Manifest, server: Server, packs: Sequence[Pack]) -> Round:
        """The round of this checkpoint; from here on it is the last one."""
        for piece, clients in packs:
            self.add(piece, list(clients))
        newest = {k: e for _, clients in packs for k, e in clients.items()}
        placed = sorted((e.place, k) for k, e in newest.items() if e.place is not None)
        self.known = {k: (place, newest[k].of) for place, k in placed}
        self.ledger = Ledger().with_({k: e.held for k, e in newest.items() if e.held != Held()})
        self.trusted = [last]
        known = {k: of for k, (_, of) in self.known.items()}
        return Round(
            number=last.stages,
            exchanges=last.exchanges,
            stage=last.stage,
            barren=last.barren,
            server=replace(server, of=known),
            held=self.ledger,
            ends=True,
        )

    def manifest_in(self, path: Path) -> Manifest:
        try:
            sealed = msgspec.json.decode(path.read_bytes(), type=Sealed)
            manifest = msgspec.json.decode(sealed.manifest, type=Manifest)
        except OSError as error:
            raise Unusable(f"{path.name} cannot be read: {error.strerror}") from error
        except msgspec.MsgspecError as error:
            raise Unusable(f"{path.name} is damaged ({error})") from error
        if hashlib.sha256(bytes(sealed.manifest)).hexdigest() != sealed.sha256 or manifest.format != FORMAT:
            raise Unusable(f"{path.name} is damaged, or of another version")
        return manifest

    def read(self, piece: Piece) -> tuple[list[dict[str, Tensor]], msgspec.Raw]:
        """What is in this file, if it is the file that was written."""
        try:
            data = (self.folder / piece.name).read_bytes()
            if len(data) != piece.size:
                raise Unusable(f"{piece.name} has {len(data)} bytes, {piece.size} were written")
            if hashlib.sha256(data).hexdigest() != piece.sha256:
                raise Unusable(f"{piece.name} is not what was written")
            return unpack(data)
        except (OSError, ValueError) as error:
            raise Unusable(f"{piece.name}: {error}") from error


def portions(entries: Iterable[tuple[str, Entry]]) -> Iterator[dict[str, Entry]]:
    """The clients in their order, as many together as a pack may hold: it is in memory when it is written."""
    some: dict[str, Entry] = {}
    size = 0
    for k, entry in entries:
        own = sum(map(num_bytes, (entry.held.kept, entry.held.trained, entry.of)))
        if some and size + own > PACK:
            yield some
            some, size = {}, 0
        some[k] = entry
        size += own
    if some:
        yield some


def differ(a: tuple[int, Tensors] | None, b: tuple[int, Tensors] | None) -> bool:
    """Whether what the server knows of a client has changed, or its place among the others."""
    return a is not b and (a is None or b is None or a[0] != b[0] or a[1] is not b[1])


def entries(groups: Sequence[Tensors], notes: msgspec.Raw) -> Iterator[tuple[str, Entry]]:
    """The clients of a pack."""
    for i, note in enumerate(msgspec.json.decode(notes, type=list[Note])):
        kept, trained, of = groups[3 * i : 3 * i + 3]
        yield note.id, Entry(Held(kept, note.since, note.owes, trained), note.place, of)
