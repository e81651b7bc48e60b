"""A turn, and what happens in it."""

import pickle
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pluribus.client import Client
from pluribus.errors import ClientFailed, MethodError
from pluribus.method import Part, children, fixed_part, personal_part, shared_part
from pluribus.methods.fedavg import FedAvg
from pluribus.methods.fedper import FedPer
from pluribus.stage import PERSONAL, Stage
from pluribus.state import Tensors, copied, digest, select
from pluribus.turn import Place, Turn
from toy import PEOPLE, Net, place

ROUND = Stage("round", 1, 3)
SILENT = replace(ROUND, reply=False)


def turn(
    message: Tensors | None = None,
    kept: Tensors | None = None,
    *,
    stage: Stage = ROUND,
    client: str = "c0",
    **more: Any,
) -> Turn:
    return Turn(1, stage, client, message or {}, 0, kept or {}, **more)


@dataclass(frozen=True, kw_only=True)
class Doing(FedPer):
    """FedPer, but a turn is whatever the test says."""

    what: Callable[[Client], Tensors | None]

    def train(self, client: Client) -> Tensors | None:  # type: ignore[override]
        return self.what(client)


def taken(what: Callable[[Client], Tensors | None], this: Turn | None = None) -> Any:
    return place(Doing(what=what)).take(this or turn())


# what a method must not do ------------------------------------------------------------------------


def changing(client: Client) -> dict[str, Tensor]:
    client.kept["own/w"].add_(1)
    return client.tensors()


def changing_received(client: Client) -> dict[str, Tensor]:
    client.received["encoder.first.bias"].zero_()
    return client.tensors()


def test_a_change_in_place_of_what_is_kept_is_an_error_that_names_the_tensor() -> None:
    with pytest.raises(ClientFailed, match=r"\['own/w'\] was changed in place"):
        taken(changing, turn(kept={"own/w": torch.zeros(2), "own/v": torch.zeros(2)}))


def test_a_change_in_place_of_what_was_received_is_an_error_that_names_the_tensor() -> None:
    with pytest.raises(ClientFailed, match=r"\['encoder.first.bias'\] was changed in place"):
        taken(changing_received, turn({"encoder.first.bias": torch.zeros(8)}))


def test_an_upload_of_a_personal_tensor_is_an_error() -> None:
    with pytest.raises(ClientFailed, match="the upload holds 'head.weight', which stays with its client"):
        taken(lambda client: {"head.weight": client.parts.head.weight})


def test_an_upload_of_a_tensor_nobody_has_is_an_error() -> None:
    with pytest.raises(
        ClientFailed, match="the upload holds 'haed.weight', which is no tensor of a shared part"
    ):
        taken(lambda client: {"haed.weight": torch.zeros(1)})


def test_the_methods_own_tensors_may_travel_under_any_name_with_a_slash() -> None:
    outcome = taken(lambda client: {"sizes/all": torch.tensor(3)})

    assert outcome.tensors["sizes/all"].item() == 3


def test_a_stage_without_reply_wants_no_upload_and_one_with_reply_wants_one() -> None:
    with pytest.raises(ClientFailed, match="reply=False, but train returned an upload"):
        taken(lambda client: client.tensors(), turn(stage=SILENT))
    with pytest.raises(ClientFailed, match="reply=True, but train returned nothing"):
        taken(lambda client: None)
    assert taken(lambda client: None, turn(stage=SILENT)).tensors is None
    assert taken(lambda client: {}).tensors == {}


def broken(client: Client) -> dict[str, Tensor]:
    raise KeyError("control")


def test_a_failure_says_where_it_was_and_what_caused_it() -> None:
    with pytest.raises(ClientFailed, match="round 1, client 'c0', Doing: KeyError: 'control'") as caught:
        taken(broken)

    error = caught.value
    assert (error.round, error.client, error.method, error.stage) == (1, "c0", "Doing", "round")
    assert isinstance(error.__cause__, KeyError)


def test_a_message_with_a_tensor_nobody_has_is_a_failure() -> None:
    with pytest.raises(ClientFailed, match=r"no tensor \['haed.weight'\]"):
        taken(lambda client: client.tensors(), turn({"haed.weight": torch.zeros(1)}))


# memory -------------------------------------------------------------------------------------------


def live(client: Client) -> dict[str, Tensor]:
    client.fit(epochs=1)
    client.kept["own/encoder"] = client.parts.encoder.first.weight[2:4]
    return select(client.parts.state_dict(), "encoder")


def test_an_upload_of_live_parameters_is_not_changed_by_the_next_turn() -> None:
    at = place(Doing(what=live))
    first = at.take(turn())
    before = digest(first.tensors or {}), digest(first.kept)

    at.take(turn(client="c1"))

    assert (digest(first.tensors or {}), digest(first.kept)) == before
    assert not any(t.requires_grad for t in (*(first.tensors or {}).values(), *first.kept.values()))


def test_watching_brings_back_the_whole_model_as_trained() -> None:
    at = place(FedPer())

    outcome, blind = at.take(turn(watch=True)), at.take(turn())

    assert blind.trained is None
    assert digest(outcome.trained or {}) == digest({**(outcome.tensors or {}), **outcome.kept})
    before = digest(outcome.trained or {})
    at.take(turn(client="c1"))
    assert digest(outcome.trained or {}) == before


# who sits where -----------------------------------------------------------------------------------


def test_a_client_is_seated_as_built_then_as_kept_then_as_received() -> None:
    at = place(FedPer())
    kept = {
        "head.bias": torch.full((4,), 1.0),
        "head.weight": torch.full((4, 8), 1.0),
        "own/w": torch.zeros(1),
    }
    message = {"head.bias": torch.full((4,), 2.0)}

    state = copied(at.seat(turn(message, kept)).parts.state_dict())

    initial = at.built("c0").initial
    assert torch.equal(state["head.bias"], message["head.bias"])
    assert torch.equal(state["head.weight"], kept["head.weight"])
    assert torch.equal(state["encoder.first.weight"], initial["encoder.first.weight"])


def test_nothing_of_the_last_client_is_left_for_the_next() -> None:
    at, fresh = place(FedPer()), place(FedPer())

    at.take(turn(client="c1"))

    assert digest(at.take(turn()).kept) == digest(fresh.take(turn()).kept)


def test_equal_models_share_one_network_and_different_models_do_not() -> None:
    at = place(FedAvg(), model=lambda client: Net(width=5 if client == "c0" else 0))

    networks = [at.built(k) for k in ("c0", "c1", "c2", "c0")]

    assert networks[1] is networks[2]
    assert networks[0] is networks[3] is not networks[1]


def test_a_pickled_place_works_and_leaves_its_networks_behind() -> None:
    at = place(FedAvg())
    one = at.take(turn())

    there: Place = pickle.loads(pickle.dumps(at))

    assert there.networks == {}
    assert at.networks
    assert digest(there.take(pickle.loads(pickle.dumps(turn()))).tensors or {}) == digest(one.tensors or {})


def test_a_newcomer_is_found_too() -> None:
    at = place(FedAvg(), newcomers={"n0": replace(PEOPLE["c0"], id="n0")})

    assert at.data_of("n0").id == "n0"


@dataclass(frozen=True)
class Noisy:
    """The toy network with dropout, which can only read the global generator."""

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        parts = dict(Net().build(shape, classes).named_children())
        return nn.Sequential(
            OrderedDict(encoder=nn.Sequential(parts["encoder"], nn.Dropout(0.5)), head=parts["head"])
        )


def test_dropout_is_a_clients_own_and_the_same_every_time() -> None:
    at = place(FedAvg(), model=Noisy())
    torch.manual_seed(1)
    one = at.take(turn())
    torch.manual_seed(2)
    two = at.take(turn())

    assert digest(one.tensors or {}) == digest(two.tensors or {})


def test_dropout_depends_on_the_clients_key() -> None:
    """One example each, the same one: nothing else is drawn."""
    data = PEOPLE["c0"].train.take(torch.arange(1))
    clients = {k: replace(PEOPLE["c0"], id=k, key=k, train=data) for k in ("a", "b")}
    at = place(FedAvg(epochs=5), model=Noisy(), clients=clients)

    a, b = (at.take(turn(client=k)) for k in "ab")

    assert digest(a.tensors or {}) != digest(b.tensors or {})


def test_the_initial_network_depends_on_the_model_seed_alone() -> None:
    initial = {digest(place(FedAvg(), seed=s, model_seed=m).built("c0").initial) for s, m in ((0, 5), (1, 5))}

    assert len(initial) == 1
    assert digest(place(FedAvg(), seed=0, model_seed=6).built("c0").initial) not in initial


# ownership ----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Owning(FedAvg):
    """FedAvg with parts of the test's making."""

    parts: Callable[[nn.Module], Mapping[str, Part]]

    def build(self, network: nn.Module) -> Mapping[str, Part]:
        return self.parts(network)


AFFINE = {"encoder.norm.weight", "encoder.norm.bias"}
RUNNING = {"encoder.norm.running_mean", "encoder.norm.running_var"}
COUNTER = {"encoder.norm.num_batches_tracked"}
FIRST = {"encoder.first.weight", "encoder.first.bias"}
HEAD = {"head.weight", "head.bias"}


def owned(encoder: Callable[[nn.Module], Part], head: Callable[[nn.Module], Part], **more: Any) -> Any:
    def parts(network: nn.Module) -> Mapping[str, Part]:
        modules = children(network)
        return {"encoder": encoder(modules["encoder"]), "head": head(modules["head"])}

    return place(Owning(parts=parts), model=Net(norm=True), **more).built("c0")


def test_running_statistics_of_a_shared_part_travel_and_their_counter_does_not() -> None:
    built = owned(shared_part, personal_part)

    assert built.shares == FIRST | AFFINE | RUNNING
    assert built.stays == HEAD | COUNTER
    assert built.statistics == set()


@pytest.mark.parametrize("how", ["the method", "the experiment"])
def test_local_statistics_stay_and_the_affine_parameters_travel(how: str) -> None:
    if how == "the method":
        built = owned(lambda m: shared_part(m, "local"), shared_part)
    else:
        built = owned(shared_part, shared_part, statistics="local")

    assert built.shares == FIRST | AFFINE | HEAD
    assert built.stays == RUNNING | COUNTER
    assert built.statistics >= RUNNING


def test_the_experiment_has_the_last_word_about_statistics() -> None:
    assert owned(lambda m: shared_part(m, "local"), shared_part, statistics="average").shares >= RUNNING


def test_single_tensors_may_have_another_owner_than_their_part() -> None:
    """FedBN: all of batch normalisation is personal."""
    mine = {name.removeprefix("encoder."): "personal" for name in AFFINE | RUNNING}

    built = owned(lambda m: Part(m, "shared", owners=mine), shared_part)  # type: ignore[arg-type]

    assert built.shares == FIRST | HEAD
    assert built.stays == AFFINE | RUNNING | COUNTER


def test_what_is_fixed_neither_travels_nor_is_kept_nor_learns() -> None:
    at = place(
        Owning(
            parts=lambda n: {
                "encoder": shared_part(children(n)["encoder"]),
                "head": fixed_part(children(n)["head"]),
            }
        )
    )

    outcome = at.take(turn(watch=True))

    assert set(outcome.tensors or {}) == FIRST
    assert outcome.kept == {}
    assert digest(select(outcome.trained or {}, "head")) == digest(select(at.built("c0").initial, "head"))


def test_a_layer_named_like_a_statistic_is_none() -> None:
    """Statistics are told by the type of their module."""

    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.running_mean = nn.Parameter(torch.zeros(3))
            self.register_buffer("norm", torch.zeros(3))

    @dataclass(frozen=True)
    class Model:
        def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
            return nn.Sequential(OrderedDict(encoder=Named(), head=nn.Linear(3, 2)))

    built = place(FedAvg(), model=Model(), statistics="local").built("c0")

    assert {"encoder.running_mean", "encoder.norm"} <= built.shares


def test_an_outcome_counts_what_was_trained_on() -> None:
    outcome = place(FedAvg(epochs=2)).take(turn())

    assert outcome.samples == 2 * 45
    assert outcome.loss > 0
    assert outcome.seconds > 0
    assert (outcome.number, outcome.client) == (1, "c0")


def test_a_place_does_whatever_item_it_is_given() -> None:
    at = place(FedAvg())

    assert digest(at(turn()).tensors or {}) == digest(at.take(turn()).tensors or {})
    assert at.seat(turn(stage=PERSONAL)).stage == PERSONAL
    assert issubclass(ClientFailed, MethodError)
