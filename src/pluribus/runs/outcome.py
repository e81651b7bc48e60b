"""What is written of a round, of a client and of a whole run, from what the engine and the readings say."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from ..engine import Round
from ..readings.evaluate import Readings
from ..readings.score import Summary, summary
from ..state import digest
from ..study import Study
from .records import (
    Bytes,
    Cohort,
    Hash,
    Line,
    Member,
    Newcomers,
    Reading,
    Result,
    Seconds,
    Seen,
    finite,
    over_run,
)

ON = {
    "received": "on what the client was just sent",
    "trained": "on the model the client last trained, where it has one",
}


def line_of(
    stages: Sequence[Round],
    before: Line | None,
    readings: Readings | None,
    validation: Readings | None,
    seconds: Seconds,
) -> Line:
    """The line of a round from its stages."""
    now = stages[-1]
    assert now.stage is not None
    moved = Bytes(sum(sum(s.up.values()) for s in stages), sum(sum(s.down.values()) for s in stages))
    samples = sum(s.samples for s in stages)
    total = sum(s.loss * s.samples for s in stages if s.samples)
    return Line(
        round=now.stage.round,
        stages=now.number,
        readings=summaries(readings),
        validation=summaries(validation),
        missing=dict(readings.missing) if readings else {},
        loss=finite(total / samples) if samples else None,
        bytes=moved,
        total_bytes=(before.total_bytes if before else Bytes()) + moved,
        samples=samples,
        cohort=cohort_of(stages),
        seconds=seconds,
    )


def cohort_of(stages: Sequence[Round]) -> Cohort:
    """Over the stages of a round: who was asked at all, who was heard at all, whose uploads were refused."""
    asked = {k for s in stages for k in s.cohort}
    heard = {k for s in stages for k in s.heard}
    return Cohort(len(asked), len(heard), {k: why for s in stages for k, why in s.refused.items()})


def summaries(readings: Readings | None) -> dict[str, Summary]:
    """Each reading over all clients, by its full name."""
    found = {name: summary(scores) for name, scores in readings.scores.items()} if readings else {}
    return {name: one for name, one in found.items() if one}


def member_of(study: Study, client: str, readings: Readings, validation: Readings | None) -> Member:
    data = study.place.data_of(client)
    return Member(
        id=client,
        newcomer=client in study.place.newcomers,
        train=len(data.train),
        val=len(data.val),
        test=len(data.test),
        classes=data.train.counts.tolist(),
        readings=seen_of(client, readings),
        validation=seen_of(client, validation) if validation else {},
    )


def seen_of(client: str, readings: Readings) -> dict[str, Seen]:
    return {name: Seen.of(score) for name, score in readings.client(client).items()}


def result_of(
    study: Study, now: Round, lines: Sequence[Line], members: Sequence[Member], seconds: Seconds, folder: str
) -> Result:
    """The result of a run that is at its end."""
    settings = study.settings
    names = list(dict.fromkeys(name for line in lines for name in line.readings))
    readings = {name: over_run(lines, name) for name in names}
    return Result(
        method=settings.method,
        data=settings.data,
        partition=settings.partition,
        model=settings.model,
        clients=len(study.division.everyone),
        rounds=settings.rounds,
        seed=settings.seed,
        generic=first(readings, "generic"),
        personal=first(readings, "personal"),
        newcomers=newcomers_of(members),
        missing=missing_of(study, lines, readings),
        reading=how_read(study, readings),
        readings=readings,
        payload_bytes=lines[-1].total_bytes,
        wire_bytes=None,
        samples=sum(line.samples for line in lines),
        refused=sum(len(line.cohort.refused) for line in lines),
        seconds=seconds,
        hash=Hash(digest(now.server.shared), digest_of_kept(study, now)),
        partition_hash=study.division.hash,
        settings_hash=settings.hash,
        settings=settings.as_dict(),
        warnings=list(study.warnings),
        run_dir=folder,
    )


def first(readings: Mapping[str, Reading], kind: str) -> Reading:
    """The reading that is meant by the name of its kind."""
    return next((r for name, r in readings.items() if name.split("/", 1)[0] == kind), Reading())


def newcomers_of(members: Sequence[Member]) -> Newcomers:
    late = [m for m in members if m.newcomer]
    return Newcomers(
        clients=len(late), zero_shot=accuracy(late, "zero-shot"), adapted=accuracy(late, "adapted")
    )


def accuracy(members: Sequence[Member], kind: str) -> float | None:
    """Over all examples of these clients, by the first reading of this kind."""
    scores = {
        m.id: seen.score
        for m in members
        if (seen := next((s for n, s in m.readings.items() if n.split("/", 1)[0] == kind), None))
    }
    found = summary(scores)
    return found.accuracy if found else None


def missing_of(study: Study, lines: Sequence[Line], readings: Mapping[str, Reading]) -> dict[str, str]:
    """What there is no number of, and why."""
    missing = {kind: why for kind, why in lines[-1].missing.items() if first(readings, kind) == Reading()}
    if not any(line.validation for line in lines):
        missing["selected"] = "no client has validation data; val = 0.2 would set some aside"
    if not study.place.newcomers:
        missing["newcomers"] = "no client was held out; newcomers = 5 would hold some out"
    return missing


def how_read(study: Study, readings: Mapping[str, Reading]) -> dict[str, str]:
    """In words what each number is read of."""
    how = {
        "last": "after the last round",
        "best_on_test": "in the round where it is largest: optimistic",
        "selected": "in the round that is best on validation data",
    }
    for name in readings:
        kind, _, what = name.partition("/")
        if kind == "personal":
            how.setdefault(kind, f"{what}, {ON[study.settings.personal_on]}")
        elif what == "whole models":
            how.setdefault(
                kind,
                "mean, by examples, of the whole models that the round's clients trained: "
                "a measurement, whose bytes are not counted",
            )
        else:
            how.setdefault(kind, f"{what}, as anybody would be sent it")
    return how


def digest_of_kept(study: Study, now: Round) -> str:
    """One SHA-256 over what all clients keep, in their order."""
    h = hashlib.sha256()
    for client in study.place.clients:
        h.update(f"{client!r} {digest(now.held.of(client).kept)}\n".encode())
    return h.hexdigest()
