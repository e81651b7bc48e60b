"""A bad network, the same every time."""

from typing import Any

from pluribus.executors.scripted import Scripted


def same(item: Any) -> Any:
    return item


def test_all_replies_come_in_an_order_that_depends_on_seed_and_stage() -> None:
    items = list(range(20))
    one, again, other = Scripted(seed=1), Scripted(seed=1), Scripted(seed=2)

    orders = [list(one.run(same, items)), list(one.run(same, items))]

    assert [list(again.run(same, items)) for _ in range(2)] == orders
    assert list(other.run(same, items)) != orders[0] != orders[1]
    assert all(sorted(order) == items for order in orders)
    assert items != orders[0]


def test_each_fate_is_what_it_says() -> None:
    fates = {"a": "ok", "b": "drop", "c": "twice", "d": "late"}
    network = Scripted(lambda item: fates[item])  # type: ignore[arg-type,return-value]

    first, second = sorted(network.run(same, "abcd")), list(network.run(same, "a"))

    assert first == ["a", "c", "c"]
    assert second == ["d", "a"], "what was late comes first, once"
    assert list(network.run(same, "a")) == ["a"]


def test_a_dropped_turn_was_done() -> None:
    """The reply is what is lost: the client has worked."""
    done: list[str] = []

    list(Scripted(lambda item: "drop").run(done.append, "ab"))

    assert sorted(done) == ["a", "b"]
