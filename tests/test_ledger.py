"""What is held of each client, as a value."""

import pickle

import torch

from pluribus.ledger import NOTHING, SHELVES, Held, Ledger, shelf


def held(value: float, since: int = 1) -> Held:
    return Held({"w": torch.tensor(value)}, since)


def test_of_a_client_never_heard_nothing_is_held() -> None:
    assert Ledger().of("c0") is NOTHING
    assert Held({}, 0, (), {}) == NOTHING


def test_with_gives_a_new_ledger_and_leaves_the_old_one() -> None:
    old = Ledger().with_({"c0": held(1.0)})

    new = old.with_({"c0": held(2.0), "c1": held(3.0)})

    assert (len(old), set(old), old["c0"].kept["w"].item()) == (1, {"c0"}, 1.0)
    assert (len(new), set(new), new["c0"].kept["w"].item()) == (2, {"c0", "c1"}, 2.0)
    assert "c1" not in old


def test_without_changes_it_is_the_same_ledger() -> None:
    ledger = Ledger().with_({"c0": held(1.0)})

    assert ledger.with_({}) is ledger


def test_a_new_ledger_copies_only_the_shelves_it_changes() -> None:
    old = Ledger().with_({f"c{k}": held(k) for k in range(5000)})

    new = old.with_({"c7": held(0.0)})

    own = [i for i in range(SHELVES) if old._shelves[i] is not new._shelves[i]]
    assert own == [shelf("c7")]
    assert len(new) == len(old) == 5000
    assert new["c8"] is old["c8"]


def test_where_a_client_is_found_does_not_depend_on_the_process() -> None:
    assert (shelf("c0"), shelf("client 17")) == (567, 350)


def test_it_travels() -> None:
    ledger = pickle.loads(pickle.dumps(Ledger().with_({"c0": held(1.0, 4)})))

    assert (ledger["c0"].since, ledger["c0"].kept["w"].item(), len(ledger)) == (4, 1.0, 1)
