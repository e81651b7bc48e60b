"""The usual answers, settings with limits, and answers by stage."""

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import pytest
import torch
from torch import nn

import one_weight
from one_weight import Two, values, weights
from pluribus.client import Client
from pluribus.errors import MethodError, ModelError, SettingError
from pluribus.method import Method, Server, Upload, averaged, fixed_part, setting
from pluribus.methods.fedavg import FedAvg
from pluribus.seeds import generator
from pluribus.stage import GENERIC, PERSONAL, WELCOME, Stage
from pluribus.state import digest
from pluribus.training import Training
from pluribus.turn import Turn
from pluribus.usual import (
    all_personal,
    all_personal_but,
    all_shared,
    all_shared_and_own,
    all_shared_but,
    by_setting,
    by_stage,
    by_taking_turns,
    mean,
    mean_by_examples,
    none_because,
    nothing_to_aggregate,
    tuned,
)
from toy import Net

ROUND = Stage("round", 1, 1)
NETWORK = Net().build((6,), 4)
UPLOADS = {"a": Upload(weights(encoder=2.0), 1), "b": Upload(weights(encoder=6.0), 3)}


@dataclass(frozen=True, kw_only=True)
class Settings(FedAvg):
    rate: float = setting(0.5, above=0, most=1)
    steps: int = setting(3, least=1, dull={1: "one step is no step"})
    tune_epochs: int = 2
    share: float = setting(0.5, least=0.25, most=1.0)
    word: str = setting("a", dull={"b": "b is a"})
    flag: bool = True
    free: float = -3.0
    way: Literal["there", "back"] = "there"


# settings -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("rate", 0.0, "rate is 0.0; it should be above 0"),
        ("rate", 1.5, "rate is 1.5; it should be at most 1"),
        ("rate", math.nan, "rate is nan"),
        ("rate", math.inf, "rate is inf"),
        ("rate", -math.inf, "rate is -inf"),
        ("steps", 0, "steps is 0; it should be at least 1"),
        ("epochs", -1, "epochs is -1; it should be at least 0"),
        ("tune_epochs", -1, "tune_epochs is -1; it should be at least 0"),
        ("free", math.nan, "a finite number"),
        ("share", 2, "share is 2; it should be at most 1.0"),
        ("share", 0, "share is 0; it should be at least 0.25"),
        ("way", "hither", "way is 'hither'; it should be one of: 'there', 'back'"),
    ],
)
def test_a_setting_beyond_its_limits_is_an_error_that_names_it(field: str, value: Any, says: str) -> None:
    with pytest.raises(SettingError, match=f"Settings: .*{says}"):
        Settings(**{field: value})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("rate", 1),
        ("share", 1),
        ("share", 0.25),
        ("rate", 1e-9),
        ("steps", 1),
        ("epochs", 0),
        ("free", -9.0),
        ("flag", False),
        ("word", "c"),
        ("way", "back"),
    ],
)
def test_a_setting_at_its_limits_is_none(field: str, value: Any) -> None:
    assert getattr(Settings(**{field: value}), field) == value


def test_dull_settings_are_said_one_sentence_each() -> None:
    assert Settings().dull() == []
    assert Settings(steps=1, word="b").dull() == ["steps = 1: one step is no step", "word = b: b is a"]


def test_settings_are_given_by_name() -> None:
    with pytest.raises(TypeError):
        FedAvg(3)  # type: ignore[call-arg]


def test_a_method_that_answers_eight_questions_is_none() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Eight(Method):
        build = all_shared

    with pytest.raises(TypeError, match="abstract"):
        Eight()  # type: ignore[abstract]


# parts --------------------------------------------------------------------------------------------


def owners(build: Any) -> dict[str, str]:
    return {name: part.owner for name, part in build(FedAvg(), NETWORK).items()}


def test_each_usual_build_says_who_owns_what() -> None:
    assert owners(all_shared) == {"encoder": "shared", "head": "shared"}
    assert owners(all_personal) == {"encoder": "personal", "head": "personal"}
    assert owners(all_shared_but("head")) == {"encoder": "shared", "head": "personal"}
    assert owners(all_shared_but("encoder", "head")) == {"encoder": "personal", "head": "personal"}
    assert owners(all_personal_but("head")) == {"encoder": "personal", "head": "shared"}
    assert owners(all_shared_and_own("head")) == {
        "encoder": "shared",
        "head": "shared",
        "head_personal": "personal",
    }
    assert list(owners(all_shared_and_own())) == ["encoder", "head", "encoder_personal", "head_personal"]
    assert fixed_part(nn.Identity()).owner == "fixed"


def test_a_copy_of_ones_own_begins_equal_and_is_another_module() -> None:
    parts = all_shared_and_own("head")(FedAvg(), NETWORK)
    shared, own = parts["head"].module, parts["head_personal"].module

    assert digest(shared.state_dict()) == digest(own.state_dict())
    assert not {id(p) for p in shared.parameters()} & {id(p) for p in own.parameters()}


@pytest.mark.parametrize("build", [all_shared_but, all_personal_but, all_shared_and_own])
def test_a_part_the_network_has_not_is_an_error_that_says_how_to_name_it(build: Any) -> None:
    with pytest.raises(
        ModelError,
        match=r"FedAvg needs the part \['neck'\]; this network has \['encoder', 'head'\]\n"
        r"    name them",
    ):
        build("neck")(FedAvg(), NETWORK)


# the server ---------------------------------------------------------------------------------------


def test_means_by_hand_and_nothing_else_of_the_server_changes() -> None:
    server = Server({**weights(encoder=9.0, head=1.0)}, {"h": torch.ones(1)}, {"a": {"c": torch.ones(1)}})

    by_examples, uniform = (
        m(FedAvg(), server, UPLOADS, ROUND, generator(0)) for m in (mean_by_examples, mean)
    )

    assert values(by_examples.shared) == {"encoder": 5.0, "head": 1.0}
    assert values(uniform.shared) == {"encoder": 4.0, "head": 1.0}
    assert by_examples.memory is server.memory
    assert by_examples.of is server.of
    assert values(server.shared) == {"encoder": 9.0, "head": 1.0}


def test_equal_sizes_make_the_two_means_one() -> None:
    """U8."""
    equal = {k: replace(u, examples=17) for k, u in UPLOADS.items()}

    one, two = (m(FedAvg(), Server({}), equal, ROUND, generator(0)).shared for m in (mean_by_examples, mean))

    assert torch.equal(one["encoder.weight"], two["encoder.weight"])


def test_any_weights_may_be_given() -> None:
    assert values(averaged(Server({}), UPLOADS, [3, 1]).shared) == {"encoder": 3.0}


def test_a_server_that_aggregates_nothing_is_the_same_server() -> None:
    server = Server(weights(encoder=1.0))

    assert nothing_to_aggregate(FedAvg(), server, UPLOADS, ROUND, generator(0)) is server


# answers by stage ---------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Staged(FedAvg):
    message = by_stage(
        sizes=lambda m, s, c, stage: {"said/sizes": c}, otherwise=lambda m, s, c, stage: {"said/other": c}
    )
    train = by_stage(sizes=lambda m, client: "sizes", round=lambda m, client: "round")


def test_each_stage_has_its_own_answer() -> None:
    method, client = Staged(), one_weight.place(FedAvg(), Two(), a=[5.0]).seat(Turn(0, ROUND, "a", {}, 0, {}))

    assert method.message(Server({}), "a", Stage("sizes", 0, 1)) == {"said/sizes": "a"}
    assert method.message(Server({}), "a", PERSONAL) == {"said/other": "a"}
    assert method.train(client) == "round"
    assert method.train(replace(client, stage=Stage("sizes", 0, 1))) == "sizes"


@dataclass(frozen=True, kw_only=True)
class Choosing(FedAvg):
    by: str = "size"

    aggregate = by_setting("by", size=mean_by_examples, head=mean)


def test_each_value_of_a_setting_has_its_own_answer() -> None:
    """(1 · 2 + 3 · 6) / 4 = 5, or (2 + 6) / 2 = 4."""
    shared = [
        Choosing(by=by).aggregate(Server({}), UPLOADS, ROUND, generator(0)).shared for by in ("size", "head")
    ]

    assert [values(tensors) for tensors in shared] == [{"encoder": 5.0}, {"encoder": 4.0}]


def test_a_stage_without_an_answer_is_an_error_that_names_those_with_one() -> None:
    client = one_weight.place(FedAvg(), Two(), a=[5.0]).seat(Turn(0, PERSONAL, "a", {}, 0, {}))

    with pytest.raises(
        MethodError,
        match=r"Staged has no answer for the stage 'personal'; it has them for \['round', 'sizes'\]",
    ):
        Staged().train(client)


# readings -----------------------------------------------------------------------------------------


def newcomer(training: Training = one_weight.STEP) -> Client:
    at = one_weight.place(FedAvg(), Two(u=2.0, v=3.0), training=training, a=[5.0])
    return at.seat(Turn(0, WELCOME, "a", {}, 0, {}))


def test_no_predictor_is_given_with_a_reason() -> None:
    generic = none_because("nobody shares anything")

    assert generic(FedAvg(), newcomer()) == {}
    assert generic.__doc__ == "nobody shares anything"


def test_a_newcomer_tunes_the_named_parts_by_hand() -> None:
    """L = ½ (u·v - 5)² at u = 2, v = 3: u: 2 - 0.1 · 3 = 1.7, v: 3 - 0.1 · 2 = 2.8."""
    after = {}
    for parts in ((), ("encoder",), ("head",)):
        client = newcomer()
        predictors = tuned(*parts)(FedAvg(), client, 1)
        after[parts] = values(client.parts.state_dict())
        assert list(predictors) == ["network"]

    assert after == {
        (): pytest.approx({"encoder": 1.7, "head": 2.8}),
        ("encoder",): pytest.approx({"encoder": 1.7, "head": 3.0}),
        ("head",): pytest.approx({"encoder": 2.0, "head": 2.8}),
    }


@dataclass(frozen=True, kw_only=True)
class Turns(FedAvg):
    welcome = by_taking_turns


def test_a_newcomer_takes_its_own_turn_once_an_epoch() -> None:
    """Two turns of one step each; the second at the second round's learning rate, 0.2."""
    client = newcomer(Training(lr=0.1, lr_at=((2, 0.2),), batch=1000))

    Turns().welcome(client, 2)

    u, v = 2 - 0.1 * 3, 3 - 0.1 * 2
    d = u * v - 5
    assert values(client.parts.state_dict()) == pytest.approx(
        {"encoder": u - 0.2 * v * d, "head": v - 0.2 * u * d}
    )


def test_the_stages_of_readings_want_no_reply() -> None:
    assert [s.reply for s in (PERSONAL, GENERIC, WELCOME)] == [False] * 3
    assert [s.name for s in (PERSONAL, GENERIC, WELCOME)] == ["personal", "generic", "welcome"]
