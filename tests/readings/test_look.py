"""A look at what a model predicts."""

from collections import OrderedDict
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from pluribus.examples import Examples
from pluribus.method import in_one_pass
from pluribus.methods.fedavg import FedAvg
from pluribus.methods.fedper import FedPer
from pluribus.readings.look import Look, pooled, right, scores
from pluribus.readings.score import Score
from pluribus.state import select
from pluribus.turn import Place
from toy import PEOPLE, Net, place


def by_hand(at: Place, client: str) -> int:
    """How many of a client's test examples the initial network gets right."""
    network = at.build(Net()).parts
    x, y = PEOPLE[client].test.x, PEOPLE[client].test.y
    return int((network(x).argmax(1) == y).sum())


def test_a_look_counts_what_is_right() -> None:
    at = place(FedAvg())
    message = at.built("c0").initial

    sight = Look("personal", ("c0", "c1"), message, {}, number=4).done_in(at)

    assert sight.number == 4
    assert sight.scores == {"network": {k: Score(by_hand(at, k), 30) for k in ("c0", "c1")}}


def test_clients_seen_together_score_as_they_do_alone() -> None:
    at = place(FedAvg())
    message = at.built("c0").initial
    names = tuple(PEOPLE)

    together = Look("generic", names, message, {}).done_in(at).scores["network"]

    for k in names:
        assert Look("generic", (k,), message, {}).done_in(at).scores["network"] == {k: together[k]}


def test_a_look_is_taken_in_evaluation_mode_and_moves_no_statistics() -> None:
    at = place(FedAvg(), model=Net(norm=True))
    message = at.built("c0").initial

    one, two = (Look("personal", ("c0",), message, {}).done_in(at) for _ in range(2))

    assert one == two
    parts = at.built("c0").parts
    assert not parts.training
    assert torch.equal(parts.encoder.norm.running_mean, torch.zeros(8))


def test_a_newcomers_epochs_are_trained_and_not_kept() -> None:
    """Zero-shot is the network as received; adapting makes it better; and the next look starts afresh."""
    at = place(FedPer(), newcomers={"n0": replace(PEOPLE["c0"], id="n0")})
    message = select(at.built("c0").initial, "encoder")

    zero, ten, again = (
        Look("welcome", ("n0",), message, {}, epochs=e).done_in(at).scores["network"]["n0"]
        for e in (0, 10, 0)
    )

    assert zero == again == Score(by_hand(at, "c0"), 30)
    assert ten.right > zero.right


@dataclass(frozen=True)
class BatchNormed:
    """Batch normalisation without running statistics: an answer depends on the others in its batch."""

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        encoder = nn.Sequential(nn.Linear(shape[0], 8), nn.BatchNorm1d(8, track_running_stats=False))
        return nn.Sequential(OrderedDict(encoder=encoder, head=nn.Linear(8, classes)))


def test_where_answers_depend_on_the_batch_clients_are_read_one_by_one() -> None:
    at = place(FedAvg(), model=BatchNormed())
    message = at.built("c0").initial

    together = Look("generic", tuple(PEOPLE), message, {}).done_in(at).scores["network"]

    network = at.build(BatchNormed()).parts.eval()
    alone = {k: int((network(p.test.x).argmax(1) == p.test.y).sum()) for k, p in PEOPLE.items()}
    pool = torch.cat([p.test.x for p in PEOPLE.values()])
    mixed = (network(pool).argmax(1) == torch.cat([p.test.y for p in PEOPLE.values()])).split(30)
    assert {k: s.right for k, s in together.items()} == alone
    assert alone != {k: int(m.sum()) for k, m in zip(PEOPLE, mixed, strict=True)}, (
        "it makes a difference here"
    )


def test_the_size_of_a_batch_changes_no_score() -> None:
    network = place(FedAvg()).build(Net()).parts.eval()
    test = PEOPLE["c0"].test

    assert [int(right({"it": network}, test, size).sum()) for size in (1, 7, 30, 512)] == [
        by_hand(place(FedAvg()), "c0")
    ] * 4


def test_nothing_to_be_tested_on_is_a_score_of_nothing() -> None:
    empty = PEOPLE["c0"].test.take(torch.arange(0))

    assert scores({"it": lambda x: x}, nn.Identity(), {"a": empty}) == {"it": {"a": Score(0, 0)}}


def test_predictors_of_one_pass_are_asked_once_a_batch_and_each_has_its_own_answer() -> None:
    """Of labels 0, 1, 2 the first is always right, the second never, and 'zero' once; four batches of ten."""
    x, asked = torch.eye(3)[torch.arange(10) % 3], list[int]()
    data = Examples(x, torch.arange(10) % 3, torch.arange(10), 3)

    def both(x: Tensor) -> tuple[Tensor, Tensor]:
        asked.append(len(x))
        return x, x.roll(1, dims=1)

    predictors = {
        **in_one_pass(both, "first", "second"),
        "zero": lambda x: torch.tensor([1.0, 0.0, 0.0]).expand(len(x), 3),
    }

    found = right(predictors, data, 3)

    assert asked == [3, 3, 3, 1]
    assert found.sum(1).tolist() == [10, 0, 4]
    assert list(scores(predictors, nn.Identity(), {"a": data})) == ["first", "second", "zero"]
    assert torch.equal(predictors["second"](x), x.roll(1, dims=1))


def test_examples_of_several_clients_are_pooled_in_their_order() -> None:
    inputs, labels = torch.arange(6.0)[:, None], torch.arange(6)
    shared = {
        "a": Examples(inputs, labels, torch.tensor([4, 1]), 6),
        "b": Examples(inputs, labels, torch.tensor([0]), 6),
    }
    apart = {
        "a": Examples(inputs, labels, torch.tensor([4, 1]), 6),
        "b": Examples(inputs.clone(), labels, torch.tensor([0]), 6),
    }

    assert pooled(shared).y.tolist() == pooled(apart).y.tolist() == [4, 1, 0]
    assert pooled(shared).inputs is inputs
    assert pooled(apart).x.flatten().tolist() == [4, 1, 0]
