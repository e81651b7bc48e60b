"""The coordinator of stages. It yields a Round after each; everything else consumes Rounds."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from .cohort import Join
from .errors import MethodError, RunError
from .executors import Executor
from .executors.serial import Serial
from .ledger import Held, Ledger
from .method import Server, Upload
from .seeds import generator
from .stage import PERSONAL, Stage
from .state import Tensors, not_finite, num_bytes, of_parts
from .store import Store
from .turn import Outcome, Place, Turn


@dataclass(frozen=True)
class Seconds:
    """Where a stage's wall time went; `train` is the workers' time, summed over them."""

    wall: float = 0.0
    train: float = 0.0
    aggregate: float = 0.0


@dataclass(frozen=True)
class Round:
    """What holds after so many stages. Once yielded it never changes; given back as `after`, it resumes."""

    number: int  # stages of the plan that are done
    exchanges: int  # the same, and those that clients were still owed
    stage: Stage | None
    server: Server
    held: Ledger
    cohort: tuple[str, ...] = ()  # asked
    heard: tuple[str, ...] = ()  # answered in time, and accepted
    refused: Mapping[str, str] = field(default_factory=dict)  # upload not used, and why
    down: Mapping[str, int] = field(default_factory=dict)  # payload bytes of each client
    up: Mapping[str, int] = field(default_factory=dict)
    samples: int = 0  # trained on, by those heard
    loss: float = float("nan")  # in training, mean over those samples
    trained: Mapping[str, Tensors] = field(default_factory=dict)  # whole models after the turn, if watched
    seconds: Seconds = Seconds()
    ends: bool = False  # this was the last stage of its round
    barren: int = 0  # stages in a row of which no upload could be used


@dataclass(frozen=True, kw_only=True)
class Conduct:
    """How the rounds are held: who joins, who fails, and what happens then."""

    rounds: int
    join: Join = Join()
    drop: float = 0.0  # chance that a client that is asked does not answer
    tries: int = 3  # how often a stage for everyone asks
    quorum: float = 0.5  # how much of everyone must answer for the run to go on
    barren: int = 3  # after so many stages without one usable upload the run stops
    watch: int = 0  # every so many rounds, and in the last, bring back whole trained models: a measurement
    keep_trained: bool = False  # hold each client's own last trained model


def rounds(
    place: Place,
    conduct: Conduct,
    *,
    executor: Executor | None = None,
    after: Round | None = None,
    store: Store | None = None,
) -> Iterator[Round]:
    """A Round after each stage of the plan. `after` resumes; `store` holds what clients send and keep."""
    coordinator = Coordinator(place, conduct, executor or Serial(), store)
    now = after or coordinator.first()
    for stage in coordinator.plan[now.number :]:
        started = time.perf_counter()
        asked = coordinator.asked(stage)
        now = coordinator.settle_debts(now, asked)
        messages = coordinator.messages(now, stage, [k for k in asked if not coordinator.debts(now, k)])
        outcomes = coordinator.ask(now, stage, messages, asked)
        now = coordinator.after_stage(now, stage, asked, messages, outcomes, started)
        yield now


class Coordinator:
    """Asks clients, judges what comes back, and lets the method make the next server of it."""

    def __init__(self, place: Place, conduct: Conduct, executor: Executor, store: Store | None = None):
        self.place, self.conduct, self.executor = place, conduct, executor
        self.store = store or Store()
        self.method, self.seed = place.method, place.seed
        self.clients = tuple(
            sorted((k for k, c in place.clients.items() if len(c.train)), key=lambda k: place.clients[k].key)
        )
        if not self.clients:
            raise RunError("no client has an example to train on")
        self.plan = tuple(self.method.plan(conduct.rounds, generator(self.seed, "plan")))
        if twice := [s for s, n in Counter((s.name, s.round) for s in self.plan).items() if n > 1]:
            raise MethodError(
                f"{type(self.method).__name__} plans {twice[0]} twice; (name, round) must be unique"
            )

    def first(self) -> Round:
        """What holds before the first stage."""
        client = self.place.seat(Turn(0, PERSONAL, self.clients[0], {}, 0, {}))
        return Round(0, 0, None, self.method.start(client.tensors(), self.clients), Ledger())

    # asking ----------------------------------------------------------------------------------------

    def asked(self, stage: Stage) -> tuple[str, ...]:
        """The stage's cohort: the same in every stage of a round."""
        return (
            self.clients
            if stage.everyone
            else self.conduct.join.draw(self.clients, self.seed, "cohort", stage.round)
        )

    def messages(self, now: Round, stage: Stage, asked: Sequence[str]) -> dict[str, Tensors]:
        return {k: self.method.message(now.server, k, stage) if stage.send else {} for k in asked}

    def ask(
        self, now: Round, stage: Stage, messages: Mapping[str, Tensors], asked: Sequence[str] = ()
    ) -> dict[str, Outcome]:
        """One outcome for each client that answered, in their order; late and repeated ones are nothing."""
        outcomes: dict[str, Outcome] = {}
        number = now.exchanges + 1
        for attempt in range(self.conduct.tries if stage.everyone else 1):
            turns = [
                Turn(number, stage, k, m, now.held.of(k).since, now.held.of(k).kept, self.is_watched(stage))
                for k, m in messages.items()
                if k not in outcomes and not self.is_away(now, stage, k, attempt)
            ]
            for outcome in self.executor.run(self.place, turns) if turns else ():
                k, first = outcome.client, outcome.client not in outcomes
                if outcome.number == number and k in messages and first:
                    outcomes[k] = self.stored(outcome)
        if stage.everyone and len(outcomes) < self.conduct.quorum * len(asked):
            silent = [k for k in asked if k not in outcomes]
            raise RunError(
                f"{stage.name} {stage.round} needs everyone, and {len(silent)} of {len(asked)} clients did "
                f"not answer in {self.conduct.tries} tries: {', '.join(silent[:5])}"
                f"\n    at least {self.conduct.quorum:.0%} must; a smaller quorum goes on without them"
            )
        return {k: outcomes[k] for k in messages if k in outcomes}

    def stored(self, outcome: Outcome) -> Outcome:
        """The same outcome, where there is room for it: what many send is not held in memory at once."""
        k = outcome.client
        return replace(
            outcome,
            tensors=outcome.tensors and self.store.keep(("upload", k), outcome.tensors),
            kept=self.store.keep(("kept", k), outcome.kept),
            trained=outcome.trained and self.store.keep(("trained", k), outcome.trained),
        )

    def is_watched(self, stage: Stage) -> bool:
        every = self.conduct.watch
        due = every > 0 and (stage.round % every == 0 or stage.round == stage.rounds)
        return due or self.conduct.keep_trained

    def is_away(self, now: Round, stage: Stage, client: str, attempt: int) -> bool:
        """Whether this client fails to answer, by the chance the experiment gives it."""
        if not self.conduct.drop:
            return False
        again = () if stage is self.plan[now.number] else (now.exchanges,)  # a stage that is told again
        rng = generator(
            self.seed, "drop", stage.name, stage.round, *again, self.place.clients[client].key, attempt
        )
        return bool(rng.initial_seed() % 10**9 < self.conduct.drop * 10**9)

    def settle_debts(self, now: Round, asked: Sequence[str]) -> Round:
        """What a client missed that everyone was told, it is told before its next turn."""
        now = replace(now, down={})
        for number in sorted({number for k in asked for number in self.debts(now, k)}):
            stage = replace(self.plan[number], everyone=False)
            debtors = [k for k in asked if self.debts(now, k)[:1] == (number,)]  # in order, or not yet
            outcomes = self.ask(now, stage, messages := self.messages(now, stage, debtors))
            paid = {k: replace(h, owes=h.owes[1:]) for k, h in self.holdings(now, outcomes).items()}
            told = {k: now.down.get(k, 0) + num_bytes(m) for k, m in messages.items()}
            now = replace(
                now, exchanges=now.exchanges + 1, held=now.held.with_(paid), down={**now.down, **told}
            )
        return now

    def debts(self, now: Round, client: str) -> tuple[int, ...]:
        return now.held.of(client).owes

    # after a stage ---------------------------------------------------------------------------------

    def after_stage(
        self,
        now: Round,
        stage: Stage,
        asked: Sequence[str],
        messages: Mapping[str, Tensors],
        outcomes: dict[str, Outcome],
        started: float,
    ) -> Round:
        answered = time.perf_counter()
        refused = {k: why for k, why in judge(self.place, stage, outcomes).items() if why}
        server, more = self.aggregate(
            now.server, stage, {k: o for k, o in outcomes.items() if k not in refused}
        )
        self.store.forget(("upload", k) for k in outcomes)
        refused |= more
        heard = {k: o for k, o in outcomes.items() if k not in refused}
        samples = sum(o.samples for o in heard.values())
        return Round(
            number=now.number + 1,
            exchanges=now.exchanges + 1,
            stage=stage,
            server=server,
            held=now.held.with_({**self.holdings(now, heard), **self.debtors(now, stage, asked, heard)}),
            cohort=tuple(asked),
            heard=tuple(heard),
            refused=refused,
            down={k: now.down.get(k, 0) + num_bytes(messages.get(k, {})) for k in asked},
            up={k: num_bytes(o.tensors or {}) for k, o in outcomes.items()},
            samples=samples,
            loss=mean_loss(heard, samples),
            trained={k: o.trained for k, o in heard.items() if o.trained is not None}
            if self.conduct.watch
            else {},
            seconds=Seconds(
                time.perf_counter() - started,
                sum(o.seconds for o in outcomes.values()),
                time.perf_counter() - answered,
            ),
            ends=self.ends(now.number),
            barren=self.barren(now, stage, outcomes, heard, refused),
        )

    def ends(self, number: int) -> bool:
        """Whether this stage is the last of its round."""
        return number + 1 == len(self.plan) or self.plan[number + 1].round != self.plan[number].round

    def holdings(self, now: Round, heard: Mapping[str, Outcome]) -> dict[str, Held]:
        """What these clients keep from now on. A turn that was not accepted did not happen."""
        return {k: self.holding(now, o) for k, o in heard.items()}

    def holding(self, now: Round, outcome: Outcome) -> Held:
        held = replace(now.held.of(outcome.client), kept=outcome.kept, since=now.exchanges + 1)
        has_trained = self.conduct.keep_trained and outcome.samples > 0
        return replace(held, trained=outcome.trained or {}) if has_trained else held

    def debtors(
        self, now: Round, stage: Stage, asked: Sequence[str], heard: Mapping[str, Outcome]
    ) -> dict[str, Held]:
        """Those who missed what everyone was told."""
        missing = [k for k in asked if k not in heard] if stage.everyone and not stage.reply else []
        return {k: replace(now.held.of(k), owes=(*now.held.of(k).owes, now.number)) for k in missing}

    def aggregate(
        self, server: Server, stage: Stage, outcomes: Mapping[str, Outcome]
    ) -> tuple[Server, dict[str, str]]:
        """The next server, and the uploads that even alone could not be aggregated."""
        uploads = {
            k: Upload(o.tensors, len(self.place.clients[k].train), self.place.built(k).running)
            for k, o in outcomes.items()
            if o.tensors is not None
        }
        if not uploads:
            return server, {}
        try:
            return self.aggregated(server, stage, uploads), {}
        except Exception as error:  # whatever an upload breaks, it must not break the run
            unusable = {
                k: why for k, u in uploads.items() if (why := self.why_unusable(server, stage, {k: u}))
            }
            if not unusable or len(unusable) == len(uploads):
                raise MethodError(
                    f"{type(self.method).__name__} cannot aggregate {stage.name} {stage.round}: "
                    f"{type(error).__name__}: {error}"
                ) from error
            rest = {k: u for k, u in uploads.items() if k not in unusable}
            return self.aggregated(server, stage, rest), unusable

    def aggregated(self, server: Server, stage: Stage, uploads: Mapping[str, Upload]) -> Server:
        return self.method.aggregate(
            server, uploads, stage, generator(self.seed, "aggregate", stage.name, stage.round)
        )

    def why_unusable(self, server: Server, stage: Stage, upload: Mapping[str, Upload]) -> str:
        try:
            self.aggregated(server, stage, upload)
        except Exception as error:  # noqa: BLE001  # for the same reason
            return f"cannot be aggregated: {type(error).__name__}: {error}"
        return ""

    def barren(
        self,
        now: Round,
        stage: Stage,
        outcomes: Mapping[str, Outcome],
        heard: Mapping[str, Outcome],
        refused: Mapping[str, str],
    ) -> int:
        """Stages in a row of which no upload could be used; too many of them end the run."""
        if not stage.reply or not outcomes:
            return now.barren
        barren = 0 if heard else now.barren + 1
        if barren >= self.conduct.barren:
            client, why = next(iter(refused.items()))
            raise RunError(
                f"no upload could be used for {barren} stages; the last was {stage.name} {stage.round}, "
                f"client '{client}': {why}\n    a smaller learning rate than "
                f"{self.place.training.lr_in(stage.round):g} may do"
            )
        return barren


def judge(place: Place, stage: Stage, outcomes: Mapping[str, Outcome]) -> dict[str, str]:
    """For each upload why it cannot be used, or nothing."""
    uploads = {k: o.tensors for k, o in outcomes.items() if o.tensors is not None}
    usual = Counter(frozenset(of_parts(u)) for u in uploads.values())
    most = max(usual, key=lambda names: (usual[names], len(names)), default=frozenset[str]())
    return {k: fault(place.built(k).initial, u, most) for k, u in uploads.items()}


def fault(initial: Tensors, upload: Tensors, usual: frozenset[str]) -> str:
    """What is wrong with an upload: its names, its shapes and types, or its numbers."""
    own = of_parts(upload)
    for name, t in own.items():
        if name not in initial:
            return f"{name} is no tensor of this client's parts"
        if t.shape != initial[name].shape or t.dtype != initial[name].dtype:
            return (
                f"{name} is {tuple(t.shape)} {t.dtype}; it should be "
                f"{tuple(initial[name].shape)} {initial[name].dtype}"
            )
    if missing := sorted(usual & initial.keys() - own.keys()):
        return f"{missing[0]} is missing"
    if bad := not_finite(upload):
        return f"{bad[0]} is not finite"
    return ""


def mean_loss(heard: Mapping[str, Outcome], samples: int) -> float:
    return sum(o.loss * o.samples for o in heard.values() if o.samples) / samples if samples else float("nan")
