"""What can be wrong for the user."""

import inspect
import pickle
import re

import pytest

from pluribus import errors
from pluribus.errors import ClientFailed, MethodError, PluribusError, SettingError, UnknownName

TREE = {
    name: cls for name, cls in vars(errors).items() if inspect.isclass(cls) and issubclass(cls, Exception)
}


def test_every_error_is_in_the_tree_that_the_module_draws() -> None:
    drawn = re.findall(r"^ .*?([A-Z]\w+)", errors.__doc__ or "", re.MULTILINE)

    assert all(issubclass(cls, PluribusError) for cls in TREE.values())
    assert sorted(drawn) == sorted(TREE)


def test_an_unknown_name_proposes_the_nearest_and_lists_all() -> None:
    error = UnknownName("method", "fedrap", ["local", "fedrep"])

    assert str(error) == "no method 'fedrap'; did you mean 'fedrep'?\n    there are: fedrep, local"
    assert isinstance(error, SettingError)


def test_an_unknown_name_like_no_other_proposes_nothing() -> None:
    assert str(UnknownName("method", "xyz", [])) == "no method 'xyz'\n    there are: none"


def test_a_clients_failure_carries_where_it_was_between_processes_too() -> None:
    error = ClientFailed(method="FedRep", stage="round", round=12, client="c3", reason="loss is nan")

    back = pickle.loads(pickle.dumps(error))

    assert str(back) == str(error) == "round 12, client 'c3', FedRep: loss is nan"
    assert (back.method, back.stage, back.round, back.client, back.reason) == (
        "FedRep",
        "round",
        12,
        "c3",
        "loss is nan",
    )
    assert isinstance(back, MethodError)


@pytest.mark.parametrize("cls", [cls for cls in TREE.values() if cls not in (UnknownName, ClientFailed)])
def test_every_error_travels(cls: type[Exception]) -> None:
    assert str(pickle.loads(pickle.dumps(cls("says it all")))) == "says it all"
