"""A method's docstring, taken apart."""

import pytest

from pluribus.methods import METHODS
from pluribus.report.story import story, venue


def test_the_parts_of_a_docstring_are_found():
    told = story(METHODS["fedrep"])

    assert told.title == "FedRep"
    assert told.does == "learn the head to the end, then move the shared body a little"
    assert told.paper.endswith("ICML 2021. arXiv:2102.07078")
    assert venue(told.paper) == "ICML 2021"
    assert (told.travels, told.stays) == ("φ, both ways", "h_k")
    assert told.bibtex.startswith("@inproceedings{")


@pytest.mark.parametrize("name", METHODS)
def test_every_method_says_what_it_does_and_what_travels(name):
    told = story(METHODS[name])

    assert told.does
    assert told.travels
    assert told.stays


def test_a_method_without_a_paper_has_none():
    assert story(METHODS["local"]).paper == ""
