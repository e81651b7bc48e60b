from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pluribus.errors import SettingError, UnknownName
from pluribus.settings import Settings, usual_model
from pluribus.training import Training

TRAINING = st.builds(
    Training,
    lr=st.floats(0, 10),
    momentum=st.floats(0, 0.99),
    optimiser=st.sampled_from(["sgd", "adam"]),
    batch=st.integers(1, 10**6),
    clip=st.none() | st.floats(1e-3, 1e3),
    keep_moments=st.booleans(),
    lr_at=st.dictionaries(st.integers(1, 100), st.floats(1e-6, 1)).map(lambda at: tuple(at.items())),
)
SETTINGS = st.builds(
    Settings,
    method=st.sampled_from(["fedavg", "fedprox:mu=0.5", "fedrep:head_epochs=3,body_epochs=2", "local"]),
    data=st.sampled_from(["digits", "cifar-10"]),
    partition=st.sampled_from(["iid", "dirichlet:0.5", "natural"]),
    clients=st.none() | st.integers(1, 10**6),
    test=st.floats(0, 0.99),
    join=st.sampled_from(["0.2", 10, 1, "0.5..1"]),
    model=st.sampled_from(["auto", "mlp:20+10", "convnet"]),
    training=TRAINING,
    rounds=st.integers(1, 10**6),
    seed=st.integers(-(10**30), 10**30),
    data_seed=st.none() | st.integers(),
    pool=st.sampled_from(["auto", "train"]),
)


@given(SETTINGS)
def test_settings_come_back_from_their_text(settings):
    again = Settings.from_toml(settings.to_toml())

    assert again == settings
    assert again.hash == settings.hash


@given(SETTINGS)
def test_resolved_settings_come_back_too_and_resolve_to_themselves(settings):
    resolved = settings.resolved()

    assert Settings.from_toml(resolved.to_toml()) == resolved
    assert resolved.resolved() == resolved


def test_settings_come_back_from_a_file(tmp_path):
    path = tmp_path / "settings.toml"
    path.write_text(Settings(rounds=3).to_toml())

    assert Settings.from_toml(path) == Settings(rounds=3)


def test_what_a_text_does_not_name_has_its_default():
    assert Settings.from_toml("rounds = 3\n[training]\nbatch = 5") == Settings(
        rounds=3, training=Training(lr=Settings().training.lr, batch=5)
    )


CHANGES = {
    "method": "fedprox",
    "data": "digits",
    "pool": "train",
    "normalise": "none",
    "partition": "iid",
    "clients": 21,
    "newcomers": 1,
    "test": 0.3,
    "val": 0.1,
    "model": "logistic",
    "rounds": 21,
    "join": "0.5",
    "drop": 0.1,
    "quorum": 0.6,
    "statistics": "local",
    "eval_every": 2,
    "adapt_epochs": 6,
    "personal_on": "trained",
    "seed": 1,
    "data_seed": 1,
    "model_seed": 1,
    "set": {"epochs": 2},
    "training": Training(lr=0.06),
}


@pytest.mark.parametrize("name", CHANGES)
def test_every_field_is_in_the_hash(name):
    settings = Settings().resolved()

    assert settings.with_(**{name: CHANGES[name]}).resolved().hash != settings.hash


def test_no_field_is_missing_in_the_test_above():
    assert CHANGES.keys() | {"device"} == Settings().__dataclass_fields__.keys()  # only one is at hand


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"method": "fedrep:head_epochs=10"}, {"method": "fedrep"}),
        ({"method": "fedrep:4"}, {"method": "fedrep", "set": {"head_epochs": 4}}),
        ({"partition": "dirichlet"}, {"partition": "dirichlet:alpha=0.1"}),
        ({"data": "cifar-10"}, {"data": "cifar10"}),
        ({"join": 1}, {"join": "1.0"}),
        ({"join": 0.5}, {"join": "0.5..0.5"}),
        ({"model": "mlp"}, {"model": "mlp:200"}),
        ({"test": 0}, {"test": 0.0}),
    ],
)
def test_one_meaning_has_one_hash(one, other):
    assert Settings(**one).hash == Settings(**other).hash


def test_the_hash_of_the_usual_settings_has_not_moved():
    """If it moves on purpose, no finished run or cell is found again: say so in the changelog."""
    fixed = Settings(method="fedavg", training=Training(lr=0.05)).resolved()

    assert set(fixed.as_dict()) == Settings().__dataclass_fields__.keys()
    assert len(fixed.hash) == 64


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("rounds = 'five'", "rounds is 'five'; it should be a whole number, got text"),
        ("rounds = 3.5", "rounds is 3.5; it should be a whole number"),
        ("rounds = true", "rounds is True; it should be a whole number"),
        ("rounds = 0", "rounds is 0; it should be 1 or more"),
        ("rounds = -1", "rounds is -1; it should be 1 or more"),
        ("clients = 0", "clients is 0; it should be 1 or more"),
        ("clients = 'x'", "clients is 'x'; it should be a whole number, got text"),
        ("newcomers = -1", "newcomers is -1; it should be 0 or more"),
        ("eval_every = 0", "eval_every is 0"),
        ("adapt_epochs = -1", "adapt_epochs is -1"),
        ("test = 1.0", "test is 1.0; it should be a portion"),
        ("val = -0.1", "val is -0.1; it should be a portion"),
        ("val = nan", "val is nan; it should be a portion"),
        ("drop = 1", "drop is 1.0; it should be a portion"),
        ("quorum = nan", "quorum is nan; it should be a portion"),
        ("join = 'some'", "join is 'some'; it should be a rate"),
        ("join = 0", "join is 0"),
        ("join = true", "join is True; it should be text"),
        ("pool = 'mx'", "no pool 'mx'; did you mean 'mix'?"),
        ("pool = 3", "pool is 3; it should be one of auto, mix, train, official"),
        ("normalise = 'halve'", "no normalise 'halve'; did you mean 'half'?"),
        ("personal_on = 'train'", "no personal_on 'train'; did you mean 'trained'?"),
        ("statistics = 'loca'", "no statistics 'loca'; did you mean 'local'?"),
        ("method = 'fedrap'", "no method 'fedrap'; did you mean 'fedrep'?"),
        ("data = 'mnist-5000'", "no dataset 'mnist-5000'"),
        ("model = 'convnt'", "no model 'convnt'; did you mean 'convnet'?"),
        ("model = 'mlp:0'", "mlp: hidden is (0,)"),
        ("partition = 'dirichlt'", "no partition 'dirichlt'; did you mean 'dirichlet'?"),
        ("partition = 'dirichlet:nan'", "dirichlet: alpha is nan"),
        ("seed = '0'", "seed is '0'; it should be a whole number"),
        ("set = 3", "set is 3; it should be a table"),
        ("[set]\nmu = 1", "no setting of fedavg 'mu'"),
        ("[set]\nepochs = -1", "FedAvg: epochs is -1"),
        ("[set]\nepochs = 'many'", "fedavg: epochs is 'many'"),
        ("training = 3", "training is 3; it should be a table"),
        ("[training]\nlr = nan", "lr is nan; it should be a finite number, 0 or more"),
        ("[training]\nlr = 'fast'", "lr is 'fast'; it should be a number, got text"),
        ("[training]\nlrr = 1", "no setting of training 'lrr'; did you mean 'lr'?"),
        ("[training]\nbatch = 0", "batch is 0"),
        ("[training]\noptimiser = 'sdg'", "no optimiser 'sdg'; did you mean 'sgd'?"),
        ("[training]\nlr_at = [[1, 'x']]", "lr_at is [[1, 'x']]; it should be a number"),
        ("[training]\nlr_at = [3]", "lr_at is [3]; it should be a list"),
        ("lr = 0.1", "lr is a setting of training\n    it belongs under [training]"),
        ("round = 3", "no setting 'round'; did you mean 'rounds'?"),
        ("rounds = ", "this is not TOML"),
    ],
)
def test_bad_settings_are_refused_by_name_and_file(tmp_path, text, says):
    path = tmp_path / "mine.toml"
    path.write_text(text)

    with pytest.raises(SettingError) as caught:
        Settings.from_toml(path)

    assert f"mine.toml: {says}" in str(caught.value)


@pytest.mark.parametrize("content", [None, b"\xff\xfe\x00", b"\x00\x01"])
def test_a_file_that_is_missing_or_no_text_is_refused(tmp_path, content):
    path = tmp_path / "mine.toml"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(SettingError, match="mine.toml"):
        Settings.from_toml(path)


def test_types_are_checked_in_python_too():
    with pytest.raises(SettingError, match="rounds is 'five'"):
        Settings(rounds="five")
    with pytest.raises(SettingError, match="training is 3"):
        Settings(training=3)


# what is given on a command line ----------------------------------------------------------------------


def test_flat_names_reach_training_and_the_method():
    settings, notes = Settings().with_given(
        {"method": "fedprox:mu=0.5", "lr": 0.1, "batch": 7, "epochs": 3, "rounds": 9, "lr_at": ["5=0.01"]}
    )

    assert settings.method == "fedprox"
    assert settings.set == {"mu": 0.5, "epochs": 3}
    assert settings.training == Training(lr=0.1, batch=7, lr_at=((5, 0.01),))
    assert settings.rounds == 9
    assert notes == ()


def test_set_is_stronger_than_a_spelling_and_that_than_epochs():
    given = {"method": "fedavg:epochs=2", "epochs": 3}

    assert Settings().with_given(given)[0].set == {"epochs": 2}
    assert Settings().with_given(given | {"set": ["epochs=4"]})[0].set == {"epochs": 4}


def test_a_method_without_epochs_keeps_its_own_and_a_note_says_so():
    settings, notes = Settings().with_given({"method": "fedrep", "epochs": 3})

    assert settings.set == {"head_epochs": 10, "body_epochs": 1}
    assert notes == ("fedrep has no setting 'epochs'; it keeps its own: head_epochs = 10, body_epochs = 1",)


def test_another_method_does_not_inherit_settings_and_the_same_keeps_them():
    base = Settings(method="fedprox", set={"mu": 0.7, "epochs": 4})

    assert base.with_(method="fedavg").set == {"epochs": 1}
    assert base.with_given({"method": "fedprox", "rounds": 2})[0].set == {"mu": 0.7, "epochs": 4}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"set": ["mu"]}, "set is 'mu'; it should be name=value, e.g. epochs=1"),
        ({"set": ["mu=1"]}, "no setting of fedavg 'mu'"),
        ({"lr_at": ["x"]}, "lr_at is 'x'; it should be round=rate, e.g. 50=0.01"),
        ({"lr": float("nan")}, "lr is nan"),
        ({"epochs": -1}, "epochs is -1"),
        ({"speed": 3}, "no setting 'speed'"),
        ({"training": Training()}, "no setting 'training'"),
        ({"method": "fedrap"}, "no method 'fedrap'; did you mean 'fedrep'?"),
    ],
)
def test_what_is_given_wrong_is_refused_by_name(given, says):
    with pytest.raises(SettingError) as caught:
        Settings().with_given(given)

    assert says in str(caught.value)


def test_an_unknown_name_stays_one_with_the_file_in_front(tmp_path):
    path = Path(tmp_path) / "mine.toml"
    path.write_text("method = 'fedrap'")

    with pytest.raises(UnknownName, match=r"mine.toml: no method"):
        Settings.from_toml(path)


# filled in --------------------------------------------------------------------------------------------


def test_what_is_left_open_is_filled_in():
    settings = Settings(seed=7).resolved()

    assert (settings.pool, settings.clients, settings.model) == ("mix", 20, "pfllib-cnn")
    assert (settings.data_seed, settings.model_seed) == (7, 7)


def test_a_natural_partition_has_as_many_clients_as_groups_and_nway_divides_the_official_sets():
    assert Settings(partition="natural").resolved().clients is None
    assert Settings(partition="nway-kshot").resolved().pool == "official"


@pytest.mark.parametrize(
    ("data", "asked", "partition", "test"),
    [
        ("pacs", "domain", "domain:500", 0.2),
        ("pacs:227", "domain", "domain:500", 0.2),
        ("domainnet10", "domain", "domain:500", 0.2),
        ("office-home", "domain", "domain:2000", 0.2),
        ("pacs", "domain:100", "domain:100", 0.2),
        ("pacs", "domain:all", "domain:all", 0.2),
        ("pacs", "iid", "iid", 0.25),
        ("digit-domains", "domain", "domain", 0.25),
    ],
)
def test_domains_are_divided_as_in_the_papers_unless_something_else_is_asked_for(
    data, asked, partition, test
):
    settings = Settings(data=data, partition=asked).resolved()

    assert (settings.partition, settings.test) == (partition, test)
    assert Settings(data=data, partition=asked, test=0.5).resolved().test == 0.5


@pytest.mark.parametrize(
    ("shape", "model"), [((1, 8, 8), "mlp"), ((1, 28, 28), "pfllib-cnn"), ((3, 32, 32), "convnet")]
)
def test_the_model_goes_by_the_size_of_the_images(shape, model):
    assert usual_model(shape) == model
