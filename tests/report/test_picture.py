"""The picture of G against P."""

from pluribus.report.picture import Point, draw, rendered, scatter
from pluribus.report.table import Spread

POINTS = [
    Point("fedavg", Spread((0.80, 0.82)), Spread((0.80, 0.82))),
    Point("fedprox", Spread((0.80, 0.82)), Spread((0.80, 0.82))),
    Point("fedper", Spread((0.5,)), Spread((0.9,)), own_generic=False),
]


def texts(figure):
    return [text.get_text() for text in figure.axes[0].texts]


def test_every_method_is_named_and_local_is_a_line():
    names = texts(scatter(POINTS, 0.7, "digits"))

    assert sorted(names) == ["Local", "P = G", "fedavg", "fedper", "fedprox"]


def test_names_do_not_cover_each_other():
    figure = scatter(POINTS, None, "digits")
    figure.draw_without_rendering()

    boxes = {t.get_text(): t.get_window_extent() for t in figure.axes[0].texts}
    assert not boxes["fedavg"].overlaps(boxes["fedprox"])


def test_a_name_does_not_lie_on_the_line_of_a_deviation():
    figure = scatter([Point("fedavg", Spread((0.7, 0.9)), Spread((0.7, 0.9)))], None, "digits")
    figure.draw_without_rendering()
    axes = figure.axes[0]

    [name] = [t.get_window_extent() for t in axes.texts if t.get_text() == "fedavg"]

    x, y = axes.transData.transform((80, 80))
    assert not name.y0 <= y <= name.y1
    assert not name.x0 <= x <= name.x1


def test_the_same_points_give_the_same_bytes():
    assert rendered(POINTS, 0.7, "digits", "svg") == rendered(POINTS, 0.7, "digits", "svg")


def test_a_picture_without_any_point_is_still_one(tmp_path):
    paths = draw([], 0.7, tmp_path, "nobody has a G")

    assert [path.name for path in paths] == ["picture.svg", "picture.png"]
    assert all(path.stat().st_size > 1000 for path in paths)
