"""FedReG's census, its two phases and its two weights, worked out."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import grad
from torch.nn import functional as F

from gate.by_hand import EVERYBODY, FULL_BATCH, ROUND, near, run, seated, upload
from gate.fedreg import FedReG
from pluribus.executors.scripted import Scripted
from pluribus.method import Server
from pluribus.seeds import generator
from pluribus.stage import Stage
from pluribus.state import Tensors, digest, within
from pluribus.turn import Turn
from toy import FEATURES, PEOPLE, Net, person, place

THRESHOLD = Stage("threshold", 0, 1, reply=False)


def told(t: float, labels: list[int], **settings: Any):
    """A client that has chosen its balanced data."""
    y = torch.tensor(labels)
    x = torch.arange(6.0 * len(y)).view(-1, 6)
    at = place(FedReG(**settings), clients={"c0": person("c0", (x, y))})
    client = seated(at, message={"census/threshold": torch.tensor(t).double()}, stage=THRESHOLD)
    at.method.train(client)
    return at, client


def missing(client: str, *, stages: int) -> Scripted:
    """A network on which a client does not answer the first so many turns of the stage `threshold`."""
    asked: Counter[str] = Counter()

    def fate(turn: Turn) -> Any:
        asked[turn.client] += turn.stage.name == "threshold"
        away = turn.client == client and turn.stage.name == "threshold" and asked[client] <= stages
        return "drop" if away else "ok"

    return Scripted(fate)


def test_the_census_hears_everybody_and_tells_the_mean():
    """Six clients have 45, 40, 35, 30, 25 and 20 examples: t = 195 / 6 = 32.5; eight bytes up, eight down."""
    sizes, threshold, *_ = run("fedreg", number=1)

    assert [sizes.stage.name, threshold.stage.name] == ["sizes", "threshold"]
    assert sizes.cohort == threshold.cohort == tuple(PEOPLE)
    assert float(sizes.server.memory["census/threshold"]) == 32.5
    assert (set(sizes.down.values()), set(sizes.up.values())) == ({0}, {8})
    assert (set(threshold.down.values()), set(threshold.up.values())) == ({8}, {0})


@pytest.mark.parametrize(("statistic", "t"), [("average", 5), ("median", 3), ("max", 14), ("sec-min", 2)])
def test_each_statistic_of_the_sizes(statistic, t):
    """Sizes 2, 1, 14, 3, 5 are 1, 2, 3, 5, 14 in order; their mean is 25 / 5 = 5."""
    uploads = {str(k): upload({"census/size": n}) for k, n in enumerate([2, 1, 14, 3, 5])}

    new = FedReG(threshold=statistic).aggregate(
        Server({}), uploads, Stage("sizes", 0, 1), generator("aggregate")
    )

    assert float(new.memory["census/threshold"]) == t


def test_the_balanced_data_have_equally_many_of_each_class_that_is_there():
    """t = 7.9 and classes 0 and 2: ⌊7.9 / 2⌋ = 3 of each.  Of class 0 three originals of five,
    of class 2 its one and two copies of it; 3 + 1 = 4 are no copies.
    """
    at, client = told(7.9, [0, 0, 2, 0, 0, 0], noise=0.5)
    index, copies = client.kept["census/index"], client.kept["census/copies"]

    data = at.method.balanced(client)

    assert data.counts.tolist() == [3, 0, 3, 0]
    assert int((~copies).sum()) == 4
    assert len(index[~copies].unique()) == 4, "no original twice"
    moved = (data.x != client.data.batch(index)[0]).any(1)
    assert torch.equal(moved, copies), "copies differ from their original, and they alone"
    assert torch.equal(data.x, at.method.balanced(client).x), "and are the same each time"


def test_a_small_threshold_asks_for_one_of_each_class():
    _, client = told(1.0, [0, 1, 1, 2])

    assert client.data.y[client.kept["census/index"]].tolist() == [0, 1, 2]
    assert not client.kept["census/copies"].any()


def test_a_balanced_client_has_its_own_data_as_balanced_data():
    """5g.1: t = i n."""
    _, client = told(4.0, [0, 1, 1, 0])

    assert sorted(client.kept["census/index"].tolist()) == [0, 1, 2, 3]
    assert not client.kept["census/copies"].any()


def test_what_was_chosen_stays_chosen():
    rounds = run("fedreg", number=3)
    chosen = {k: digest(within("census", held.kept)) for k, held in rounds[1].held.items()}

    assert {k: digest(within("census", held.kept)) for k, held in rounds[-1].held.items()} == chosen


def test_who_misses_the_threshold_is_told_before_its_next_turn_and_trains():
    """c1 is away for the three tries of the stage; eight bytes more when it comes back."""
    usual = run("fedreg", number=2, join=EVERYBODY)

    rounds = run("fedreg", number=2, join=EVERYBODY, executor=missing("c1", stages=3))

    assert "c1" not in rounds[1].heard
    assert rounds[2].heard == tuple(PEOPLE)
    assert rounds[2].down["c1"] == rounds[2].down["c0"] + 8
    assert digest(rounds[2].held["c1"].kept) == digest(usual[2].held["c1"].kept), "nothing is lost by it"
    assert digest(rounds[-1].server.shared) == digest(usual[-1].server.shared)


def test_who_still_misses_the_threshold_is_not_asked_to_train():
    """c1 is away when it is told again before round 1; before round 2 it is there."""
    rounds = run("fedreg", number=2, join=EVERYBODY, executor=missing("c1", stages=4))

    assert set(rounds[2].heard) == set(PEOPLE) - {"c1"}
    assert rounds[3].heard == tuple(PEOPLE)


def test_two_phases_of_one_step():
    """One epoch of one batch is one step: of both heads' sum on encoder and own head, then of the shared
    head on encoder and shared head, on the balanced data.
    """
    at = place(FedReG(epochs=1), training=FULL_BATCH)
    client = seated(at, message={"census/threshold": torch.tensor(20.0)}, stage=THRESHOLD)
    at.method.train(client)
    client = seated(at, kept={**client.kept, "head_personal.bias": torch.ones(4)})
    w = {n: t.detach().clone() for n, t in client.parts.named_parameters()}
    own, balanced = (
        data.batch(torch.arange(len(data))) for data in (client.data, at.method.balanced(client))
    )

    sent = at.method.train(client)

    w = stepped(
        w,
        lambda v: F.cross_entropy(scores(v, own[0], "head") + scores(v, own[0], "head_personal"), own[1]),
        "encoder",
        "head_personal",
    )
    w = stepped(w, lambda v: F.cross_entropy(scores(v, balanced[0], "head"), balanced[1]), "encoder", "head")
    assert near(dict(client.parts.named_parameters()), w)
    assert sent["census/sizes"].tolist() == [45, int((~client.kept["census/copies"]).sum())]
    assert set(sent) == {n for n in w if not n.startswith("head_personal")} | {"census/sizes"}


def scores(w: Tensors, x: Tensor, head: str) -> Tensor:
    return (
        torch.relu(x @ w["encoder.first.weight"].T + w["encoder.first.bias"]) @ w[f"{head}.weight"].T
        + w[f"{head}.bias"]
    )


def stepped(w: Tensors, loss: Callable[[Tensors], Tensor], *parts: str) -> dict[str, Tensor]:
    slopes = grad(loss)(dict(w))
    return {n: t - 0.1 * slopes[n] if n.split(".")[0] in parts else t for n, t in w.items()}


def test_each_part_is_weighed_by_its_own_size():
    """Encoder (0·1 + 4·3) / 4 = 3; head (0·3 + 4·1) / 4 = 1; the registered 99 do not matter."""
    uploads = {
        k: upload({"encoder.w": value, "head.w": value, "census/sizes": sizes}, 99)
        for k, value, sizes in (("a", 0.0, [1, 3]), ("b", 4.0, [3, 1]))
    }
    server = Server(
        {"encoder.w": torch.tensor(7.0), "head.w": torch.tensor(7.0)}, {"census/threshold": torch.tensor(1.0)}
    )

    new = FedReG().aggregate(server, uploads, ROUND, generator("aggregate"))

    assert (float(new.shared["encoder.w"]), float(new.shared["head.w"])) == (3.0, 1.0)
    assert new.memory == server.memory


def test_who_never_trained_predicts_what_everybody_predicts():
    """5g.7: the own head starts at nothing, also where it has several layers."""
    for at in (place(FedReG()), place(FedReG(), model=DeepHead())):
        client = seated(at)

        x = client.data.x

        assert torch.equal(at.method.personal(client)["head + own head"](x), client.parts(x))


def test_personal_adds_the_two_heads():
    client = seated(place(FedReG()), kept={"head_personal.bias": torch.tensor([0.0, 1.0, 2.0, 3.0])})
    x = client.data.x

    both = FedReG().personal(client)["head + own head"](x)

    assert torch.allclose(
        both - client.parts(x), torch.tensor([0.0, 1.0, 2.0, 3.0]).expand(len(x), 4), atol=1e-6
    )


@dataclass(frozen=True)
class DeepHead:
    """The toy network, with a head of two layers."""

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        network = Net().build(shape, classes)
        network.head = nn.Sequential(nn.Linear(FEATURES, 5), nn.ReLU(), nn.Linear(5, classes))
        return network


def test_a_federation_that_often_does_not_answer_is_told_in_the_end():
    rounds = run("fedreg", number=12, join=EVERYBODY, drop=0.6, tries=1, quorum=0.1)
    unaware = [k for k in PEOPLE if k not in rounds[1].heard]

    assert unaware, "somebody missed the threshold"
    assert any(k in now.heard for now in rounds[2:] for k in unaware)
