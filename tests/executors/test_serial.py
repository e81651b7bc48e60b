"""One after the other."""

from pluribus.executors.serial import Serial


def test_items_are_done_in_their_order_and_only_when_asked_for() -> None:
    done: list[int] = []

    def work(item: int) -> int:
        done.append(item)
        return 10 * item

    results = Serial().run(work, [3, 1, 2])

    assert done == []
    assert next(results) == 30
    assert done == [3]
    assert list(results) == [10, 20]
