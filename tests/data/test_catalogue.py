"""Every entry of the catalogue is whole; the real files, where there are any, are what it says."""

import time
from urllib.parse import urlparse

import pytest

from pluribus import data
from pluribus.data.entry import Form
from pluribus.errors import UnknownName

PUBLISHED = {  # means and deviations that everybody uses, to the digits in which they are given
    "mnist": ((0.1307,), (0.3081,)),
    "fashion-mnist": ((0.2860,), (0.3530,)),
    "cifar10": ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
}


CLASSES = {
    "cifar100": 100,
    "cifar100-coarse": 20,
    "domainnet": 345,
    "emnist-balanced": 47,
    "emnist-byclass": 62,
    "emnist-bymerge": 47,
    "emnist-letters": 26,
    "femnist": 62,
    "femnist-128": 62,
    "office-home": 65,
    "pacs": 7,
}
HTTP_ONLY = {"svhn"}  # its server has no certificate; the checksums stand guard


@pytest.mark.parametrize("name", data.DATASETS)
def test_an_entry_is_whole(name):
    entry = data.DATASETS[name]

    assert entry.name == name
    assert all([entry.title, entry.licence, entry.forms])
    assert len(set(entry.classes)) == len(entry.classes) == CLASSES.get(name, 10)
    assert entry.train + entry.test > 0 or name == "domainnet10"
    assert entry.homepage.startswith("http")
    assert entry.citation.startswith("@")
    assert entry.citation.count("{") == entry.citation.count("}")


@pytest.mark.parametrize("name", data.DATASETS)
def test_every_parcel_can_be_fetched_and_checked(name):
    entry = data.DATASETS[name]
    parcels = [parcel for delivery in entry.deliveries for parcel in delivery.parcels]

    assert all(len(parcel.md5) == 32 and parcel.urls and parcel.size > 0 for parcel in parcels)
    assert name in HTTP_ONLY or all(urlparse(parcel.urls[0]).scheme == "https" for parcel in parcels)
    assert all(url.endswith(f"/{parcel.name}") for parcel in parcels for url in parcel.urls)


@pytest.mark.parametrize("name", data.DATASETS)
def test_a_dataset_nobody_delivers_says_what_to_put_where(name):
    entry = data.DATASETS[name]
    embedded = [form for form in entry.forms if isinstance(form, Form) and form.package]

    assert entry.size or embedded or entry.wanted


@pytest.mark.parametrize("name", data.DATASETS)
def test_what_is_delivered_is_found_and_read_afterwards(name):
    entry = data.DATASETS[name]

    for delivery in entry.deliveries:
        sent = {parcel.name for parcel in delivery.parcels}
        assert any(
            delivery.folder in form.folders and all(sent & set(file.names) for file in form.files)
            for form in entry.forms
            if isinstance(form, Form)
        )


def test_no_two_files_that_are_known_by_their_sum_share_it_unless_they_are_one_file():
    named = {
        (file.md5, file.name)
        for entry in data.DATASETS.values()
        for form in entry.forms
        if isinstance(form, Form)
        for file in form.files
        if file.md5
    }

    assert len({md5 for md5, _ in named}) == len(named)


def test_a_name_may_be_spelt_as_in_other_libraries():
    assert data.entry("cifar-10") is data.DATASETS["cifar10"]
    assert all(name in data.DATASETS for name in data.ALIASES.values())


def test_an_unknown_name_is_an_error_that_knows_the_others():
    with pytest.raises(UnknownName, match=r"no dataset 'mnits'; did you mean 'mnist'\?"):
        data.load("mnits")


@pytest.mark.parametrize("name", ["digits", "mnist-5k"])
def test_an_embedded_dataset_is_as_the_entry_says(name):
    check(name, None)


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.real_data(n)) for n in PUBLISHED])
def test_a_real_dataset_is_as_the_entry_says(name):
    dataset = check(name, None)
    began = time.perf_counter()
    again = data.load(name, download=False)

    assert time.perf_counter() - began < 1
    assert again.digest == dataset.digest
    mean, std = PUBLISHED[name]
    assert again.scale("statistics").mean == pytest.approx(mean, abs=5.1e-5)
    assert again.scale("statistics").std == pytest.approx(std, abs=5.1e-5)


def check(name, data_dir):
    """The dataset, after a comparison with its entry."""
    entry, dataset = data.DATASETS[name], data.load(name, data_dir, download=False)
    assert dataset.shape == entry.shape
    assert dataset.official == entry.train
    assert len(dataset) == entry.train + entry.test
    assert dataset.labels.unique().tolist() == list(range(len(entry.classes)))
    assert dataset.labels[: entry.train].unique().tolist() == list(range(len(entry.classes)))
    return dataset
