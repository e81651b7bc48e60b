"""pFedPM's prototypes, how they are mixed, and its two heads, worked out."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from gate import two_networks
from gate.by_hand import EVERYBODY, ROUND, run, seated, upload
from gate.pfedpm import PFedPM, away, prototypes, relate, relation_of
from pluribus.errors import MethodError
from pluribus.method import Server
from pluribus.methods.local import Local
from pluribus.seeds import generator
from pluribus.state import digest, select, under, within
from pluribus.training import Training
from toy import CLASSES, FEATURES, PEOPLE, history, place

ROUNDS = run("pfedpm", join=EVERYBODY, number=3)


def known(vectors, classes):
    return {"prototype": torch.tensor(vectors), "class": torch.tensor(classes)}


def sent(vectors, classes, counts):
    return upload(under("own", {**known(vectors, classes), "count": torch.tensor(counts)}))


def aggregated(uploads, server=None):
    new = PFedPM().aggregate(server or Server({}), uploads, ROUND, generator("aggregate"))
    return within("global", new.shared)


def test_the_global_mean_of_a_class_is_weighed_by_its_examples():
    """Class 2: (1 · 0 + 3 · 4) / 4 = 3; class 5 has one owner, whatever its other examples."""
    new = aggregated({"a": sent([[0.0]], [2], [1]), "b": sent([[4.0], [7.0]], [2, 5], [3, 9])})

    assert new["class"].tolist() == [2, 5]
    assert new["prototype"].tolist() == [[3.0], [7.0]]


def test_a_class_nobody_sent_stays_as_it_was():
    before = Server(under("global", known([[1.0], [9.0]], [2, 5])))

    new = aggregated({"a": sent([[0.0]], [2], [1])}, before)

    assert dict(zip(new["class"].tolist(), new["prototype"].flatten().tolist(), strict=True)) == {
        2: 0.0,
        5: 9.0,
    }


def test_features_of_different_sizes_are_said():
    """2g.9."""
    with pytest.raises(MethodError, match=r"one size from everybody; there are \[1, 2\]"):
        aggregated({"a": sent([[0.0]], [0], [1]), "b": sent([[0.0, 1.0]], [0], [1])})


def test_own_and_global_are_mixed_class_by_class():
    """a = 0.4, own 5 for class 2, global 0: 0.4 · 5 = 2; class 7 it has not: global 3."""
    client = seated(
        place(PFedPM()),
        message=under("global", known([[0.0], [3.0]], [2, 7])),
        kept=under("own", known([[5.0], [8.0]], [2, 9])),
    )

    mixed = PFedPM(a=0.4).mixed(client)

    assert mixed["class"].tolist() == [2, 7]
    assert mixed["prototype"].tolist() == [[2.0], [3.0]]


def test_what_is_mixed_is_what_was_sent_last_and_what_is_received():
    before, now = ROUNDS[:2]
    for k in now.heard:
        own, received = within("own", before.held[k].kept), within("global", before.server.shared)
        for c, vector in zip(
            *(within("mixed", now.held[k].kept)[n] for n in ("class", "prototype")), strict=True
        ):
            want = received["prototype"][received["class"] == c][0]
            if c in own["class"]:
                want = 0.4 * own["prototype"][own["class"] == c][0] + 0.6 * want
            assert torch.allclose(vector, want, atol=1e-6)
    assert not within("mixed", before.held["c0"].kept)


def test_clients_have_networks_of_their_own():
    widths = {held.kept["encoder.first.weight"].shape[0] for held in ROUNDS[-1].held.values()}

    assert widths == {5, 7}


def test_what_is_sent_is_a_vector_a_class_and_a_count_for_each_class():
    """2g.7: four bytes a number, eight a class and eight a count up; vectors and classes down."""
    for before, now in zip([None, *ROUNDS], ROUNDS, strict=False):
        classes = len(before.server.shared["global/class"]) if before else 0
        assert set(now.down.values()) == {(4 * FEATURES + 8) * classes}
        for k, up in now.up.items():
            assert up == (4 * FEATURES + 16) * len(PEOPLE[k].train.y.unique())


def test_prototypes_are_means_over_all_data_without_dropout():
    client = seated(place(PFedPM(), model=two_networks))
    client.parts["encoder"] = nn.Sequential(client.parts["encoder"], nn.Dropout(0.5))
    f = client.parts.eval().features(client.data.x)
    client.parts.train()

    own = prototypes(client)

    for c, vector, n in zip(own["class"], own["prototype"], own["count"], strict=True):
        assert torch.allclose(vector, f[client.data.y == c].mean(0), atol=1e-6)
        assert n == (client.data.y == c).sum()


def test_the_pull_is_a_mean_over_batch_and_features():
    """f = (1, 2), (5, 5), (0, 0); means of classes 0 and 3 are (0, 0), (4, 4); class 1 has none.
    1 + 4, 0, 0 · over 3 · 2 numbers, and (1 + 1) of class 3: (5 + 2) / 6.
    """
    f = torch.tensor([[1.0, 2.0], [5.0, 5.0], [9.0, 9.0]])

    pull = away(f, torch.tensor([0, 3, 1]), known([[0.0, 0.0], [4.0, 4.0]], [0, 3]))

    assert torch.isclose(pull, torch.tensor(7 / 6))


def test_without_the_pull_encoder_and_head_train_alone():
    """2g.1: λ = 0 is Local, to the bit; batches of 7 leave none of one, which would be left out."""
    sevens = Training(lr=0.1, batch=7)
    pulled = history(place(PFedPM(lam=0.0), training=sevens), number=3, join=EVERYBODY)[-1]
    local = history(place(Local(), training=sevens), number=3)[-1]

    for k, held in local.held.items():
        assert digest(select(pulled.held[k].kept, "encoder", "head")) == digest(
            select(held.kept, "encoder", "head")
        )


def test_with_its_own_prototypes_alone_a_client_needs_nobody():
    """2g.2: a = 1; c0's encoder and head are as if the others had other data (of the same classes)."""
    others = {
        k: replace(p, train=replace(p.train, inputs=-p.train.inputs)) if k != "c0" else p
        for k, p in PEOPLE.items()
    }

    one, two = (
        run("pfedpm", method=PFedPM(a=1.0), clients=clients, join=EVERYBODY, number=3)[-1]
        for clients in (PEOPLE, others)
    )

    assert all(
        digest(select(now.held["c0"].kept, "encoder", "head"))
        == digest(select(one.held["c0"].kept, "encoder", "head"))
        for now in (one, two)
    )
    assert digest(one.server.shared) != digest(two.server.shared)


def test_the_relation_is_as_large_as_the_sheet_says():
    assert sum(p.numel() for p in relation_of(50).parameters()) == 13_393


def test_relation_scores_known_classes_between_0_and_1_and_others_below():
    """2g.10."""
    client = seated(place(PFedPM()), kept={**under("mixed", known([[0.0] * 8, [1.0] * 8], [3, 1]))})
    client.parts.eval()
    x = client.data.x

    scores = PFedPM().personal(client)["relation"](x)

    assert scores.shape == (len(x), CLASSES)
    assert set(scores[:, [0, 2]].flatten().tolist()) == {-1.0}
    assert bool(((scores[:, [1, 3]] > 0) & (scores[:, [1, 3]] < 1)).all())
    alone = relate(client.parts, client.parts.features(x), torch.ones(1, 8))
    assert torch.allclose(scores[:, 1], alone[:, 0])


def test_the_relation_learns_and_moves_nothing_else():
    """2g.6: only from the second round on; encoder and head are as without it."""
    first, second = (run("pfedpm", join=EVERYBODY, number=n)[-1].held["c0"].kept for n in (1, 2))
    fresh = place(PFedPM(), model=two_networks).built("c0").initial

    assert digest(select(first, "relation")) == digest(select(fresh, "relation"))
    assert digest(select(second, "relation")) != digest(select(fresh, "relation"))
