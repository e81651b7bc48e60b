"""Checkpoints of rounds on the toy federation: what is written comes back, and costs what changed."""

from dataclasses import dataclass, replace

import pytest
import torch

from pluribus.engine import Round
from pluribus.errors import RunError
from pluribus.ledger import Held, Ledger
from pluribus.method import Server
from pluribus.methods import METHODS
from pluribus.methods.fedavg import FedAvg
from pluribus.methods.fedper import FedPer
from pluribus.methods.scaffold import SCAFFOLD
from pluribus.runs import checkpoint
from pluribus.runs.checkpoint import Checkpoints
from pluribus.stage import Stage
from pluribus.store import Store
from pluribus.training import Training
from toy import Net, hashes, history, place

ANY = {"usable": lambda manifest: ""}


def checkpoints(folder):
    return Checkpoints(folder / "checkpoint", "settings", "partition")


def saved(folder, history):
    """The writer that saved all of these rounds, one after the other."""
    writer = checkpoints(folder)
    for now in history:
        writer.saw(now)
        writer.save(now)
    return writer


def restored(folder):
    return checkpoints(folder).latest(**ANY)[0]


def known(now):
    """All that must come back: hashes, and what is noted of each client."""
    notes = {k: (h.since, h.owes, list(h.kept), list(h.trained)) for k, h in now.held.items()}
    return now.number, now.exchanges, now.barren, now.stage, hashes(now), notes


@dataclass(frozen=True, kw_only=True)
class Census(FedAvg):
    """FedAvg after two stages for everyone; the server knows something of each client, in its own order."""

    def plan(self, rounds, rng):
        ask = Stage("census", 0, rounds, everyone=True, send=False)
        tell = Stage("tell", 0, rounds, everyone=True, reply=False)
        return [ask, tell, *super().plan(rounds, rng)]

    def train(self, client):
        if client.stage.name == "census":
            return {"census/size": torch.tensor(len(client.data))}
        if client.stage.name == "tell":
            client.keep("told", client.received)
            return None
        return super().train(client)

    def aggregate(self, server, uploads, stage, rng):
        if stage.name == "census":
            sizes = {k: u.tensors for k, u in reversed(uploads.items())}
            return replace(server, memory={"sum": torch.ones(2)}, of=sizes)
        one = min(server.of.keys() - uploads.keys())  # of one that took no part
        of = {**server.of, one: {"census/size": torch.tensor(stage.round)}}
        of = dict(sorted(of.items(), reverse=stage.round > 2))
        return replace(super().aggregate(server, uploads, stage, rng), of=of)


def toy(method, **more):
    """Batch normalisation, and moments that are kept where the method allows momentum."""
    momentum = 0.0 if isinstance(method, SCAFFOLD) else 0.9
    training = Training(lr=0.1, batch=8, momentum=momentum, keep_moments=True)
    return place(method, model=Net(norm=True), training=training, **more)


@pytest.mark.parametrize(
    "method", [*(cls() for cls in METHODS.values()), Census()], ids=lambda m: type(m).__name__
)
def test_a_round_comes_back_as_it_was_and_goes_on_to_the_same_bits(tmp_path, method):
    conduct = {"number": 4, "drop": 0.3, "keep_trained": True, "quorum": 0.0, "tries": 1}
    whole = history(toy(method), **conduct)
    for end in range(1, len(whole)):
        folder = tmp_path / str(end)
        folder.mkdir()
        saved(folder, whole[:end])

        now = restored(folder)

        assert known(now) == known(whole[end - 1])
        assert list(now.server.of) == list(whole[end - 1].server.of)
        assert hashes(history(toy(method), after=now, **conduct)[-1]) == hashes(whole[-1])


def test_a_debt_comes_back(tmp_path):
    whole = history(toy(Census()), number=1, drop=0.5, quorum=0.0, tries=1)
    saved(tmp_path, whole[:2])

    owes = [held.owes for held in restored(tmp_path).held.values()]

    assert (1,) in owes


def test_stages_without_a_usable_upload_are_still_counted(tmp_path):
    now = replace(history(toy(FedAvg()), number=1)[0], barren=2)
    saved(tmp_path, [now])

    assert restored(tmp_path).barren == 2


def test_saving_further_after_coming_back_is_the_same_as_never_stopping(tmp_path):
    whole = history(toy(FedPer()), number=6)
    saved(tmp_path, whole[:3])
    writer = checkpoints(tmp_path)
    writer.latest(**ANY)

    for now in whole[3:]:
        writer.saw(now)
        writer.save(now)

    assert known(restored(tmp_path)) == known(whole[-1])


def test_rounds_between_two_checkpoints_are_not_forgotten(tmp_path):
    whole = history(toy(FedPer()), number=6)
    writer = checkpoints(tmp_path)

    for now in whole:
        writer.saw(now)
    writer.save(whole[-1])

    assert known(restored(tmp_path)) == known(whole[-1])


def test_the_last_two_are_kept_and_nothing_else(tmp_path):
    saved(tmp_path, history(toy(FedAvg()), number=5))

    manifests = sorted(p.name for p in (tmp_path / "checkpoint").glob("*.json"))
    servers = sorted(p.name for p in (tmp_path / "checkpoint").glob("*.server.*"))

    assert manifests == ["000004.json", "000005.json"]
    assert servers == ["000004.server.safetensors", "000005.server.safetensors"]


# cost -------------------------------------------------------------------------------------------------


def ledgers(clients, cohort, number):
    """Rounds of a method that keeps one number a client; the cohorts take turns."""
    held = Ledger()
    for t in range(1, number + 1):
        asked = [f"c{i % clients}" for i in range((t - 1) * cohort, t * cohort)]
        held = held.with_({k: Held({"head.weight": torch.tensor([float(t)])}, since=t) for k in asked})
        stage = Stage("round", t, number)
        yield Round(
            t,
            t,
            stage,
            Server({"w": torch.ones(1)}),
            held,
            cohort=tuple(asked),
            heard=tuple(asked),
            ends=True,
        )


def test_a_checkpoint_writes_what_changed_and_not_every_client(tmp_path):
    writer = saved(tmp_path, list(ledgers(clients=1000, cohort=10, number=6)))

    assert list(writer.sizes.values()) == [10] * 6


def test_packs_do_not_pile_up_and_are_written_again_seldom(tmp_path, monkeypatch):
    """100 checkpoints of 5 clients, no client twice: each is written once for every power of eight."""
    monkeypatch.setattr("os.fsync", lambda file: None)
    writer, written = checkpoints(tmp_path), 0

    for now in ledgers(clients=500, cohort=5, number=100):
        writer.saw(now)
        writer.save(now)
        written += writer.sizes[f"{now.number:06d}.clients.safetensors"]

    assert len(writer.pieces) <= 2 * 8
    assert written <= 3 * 500
    assert len(restored(tmp_path).held) == 500


def test_what_is_out_of_date_goes_and_what_is_not_comes_back(tmp_path, monkeypatch):
    monkeypatch.setattr("os.fsync", lambda file: None)
    whole = list(ledgers(clients=30, cohort=10, number=40))
    writer = saved(tmp_path, whole)

    files = sum(p.stat().st_size for p in (tmp_path / "checkpoint").glob("*.clients.*"))
    once = sum(p.stat().st_size for p in (tmp_path / "checkpoint").glob("000040.clients.*"))

    assert known(restored(tmp_path)) == known(whole[-1])
    assert sum(writer.sizes.values()) <= 2 * 30 + 10
    assert files <= 8 * once


# damage -----------------------------------------------------------------------------------------------


def test_what_is_too_large_for_one_pack_is_in_several(tmp_path, monkeypatch):
    """A head has 144 bytes, and two fit; three clients are in two packs of round 1, and come back."""
    monkeypatch.setattr(checkpoint, "PACK", 300)
    whole = history(toy(FedPer()), number=2)
    saved(tmp_path, whole[:1])

    packs = sorted(path.name for path in (tmp_path / "checkpoint").glob("*.clients*"))

    assert len(packs) > 1
    assert packs[0] == "000001.clients-2.safetensors"
    assert known(restored(tmp_path)) == known(whole[0])


def test_what_comes_back_lies_where_there_is_room_for_it(tmp_path):
    whole = history(toy(FedPer()), number=3)
    saved(tmp_path, whole)
    store = Store(room=0)

    now = Checkpoints(tmp_path / "checkpoint", "settings", "partition", store).latest(**ANY)[0]

    assert known(now) == known(whole[-1])
    assert store.chunks


FILES = ["000003.json", "000003.server.safetensors", "000003.clients.safetensors"]
DAMAGE = {
    "cut to half": lambda data: data[: len(data) // 2],
    "zeroed": lambda data: b"\0" * len(data),
    "empty": lambda data: b"",
    "one bit of the last number": lambda data: data[:-1] + bytes([data[-1] ^ 1]),
    "one bit": lambda data: (
        data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :]
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_checkpoint_is_noticed_and_the_one_before_is_used(tmp_path, name, damage):
    whole = history(toy(FedPer()), number=3)
    saved(tmp_path, whole)
    path = tmp_path / "checkpoint" / name
    path.write_bytes(DAMAGE[damage](path.read_bytes()))

    now, problems = checkpoints(tmp_path).latest(**ANY)

    assert known(now) == known(whole[1])
    assert len(problems) == 1
    assert name in problems[0]


def test_a_lost_file_is_noticed(tmp_path):
    saved(tmp_path, history(toy(FedPer()), number=3))
    (tmp_path / "checkpoint" / FILES[1]).unlink()

    now, _ = checkpoints(tmp_path).latest(**ANY)

    assert now.number == 2


def test_with_both_damaged_there_is_an_error_and_nothing_is_deleted(tmp_path):
    saved(tmp_path, history(toy(FedPer()), number=3))
    for path in (tmp_path / "checkpoint").glob("*.json"):
        path.write_bytes(b"")
    before = sorted(p.name for p in (tmp_path / "checkpoint").iterdir())

    with pytest.raises(RunError, match=r"000003 cannot be used.*000002 cannot be used.*\n.*run --config"):
        checkpoints(tmp_path).latest(**ANY)

    assert sorted(p.name for p in (tmp_path / "checkpoint").iterdir()) == before


def test_after_a_damaged_one_the_next_two_are_kept_again(tmp_path):
    whole = history(toy(FedPer()), number=5)
    saved(tmp_path, whole[:3])
    (tmp_path / "checkpoint" / "000003.json").write_bytes(b"")
    writer = checkpoints(tmp_path)
    writer.latest(**ANY)

    for now in whole[2:]:
        writer.saw(now)
        writer.save(now)

    assert sorted(p.stem for p in (tmp_path / "checkpoint").glob("*.json")) == ["000004", "000005"]
    assert known(restored(tmp_path)) == known(whole[-1])


def test_without_any_checkpoint_there_is_nothing_to_go_on_from(tmp_path):
    assert checkpoints(tmp_path).latest(**ANY) == (None, [])
