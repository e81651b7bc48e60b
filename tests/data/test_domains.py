"""Datasets by domain: found under the names people have, in folders and archives, in one order."""

import gzip
import tarfile
import zipfile
from dataclasses import replace

import numpy as np
import pytest

from data.images import noise, picture, put, tar_of, zip_of
from pluribus import data
from pluribus.data import domains, loading, pictures
from pluribus.data.entry import Look
from pluribus.errors import DataDamaged, DataNotFound, UnknownName

LOOK = Look(8)


def small(make, look=LOOK, **changes):
    """The entry, whatever the number of its images."""
    return replace(make(look), varies=True, **changes)


def pacs_files(domains=("photo", "art_painting", "cartoon", "sketch")):
    """An image of two classes for each domain."""
    return {
        f"{domain}/{name}/{i}.png": noise(10 * d + i)[0]
        for d, domain in enumerate(domains)
        for i, name in enumerate(("dog", "person"))
    }


PLACES = {
    "the folder itself": lambda root: put(root, pacs_files()),
    "a folder of the name": lambda root: put(root / "PACS", pacs_files()),
    "a folder in that": lambda root: put(root / "pacs_data" / "images", pacs_files()),
    "other spellings": lambda root: put(
        root / "PACS", pacs_files(("Photo", "Art Painting", "cartoon", "SKETCH"))
    ),
    "a tar": lambda root: tar_of(root / "PACS.tar.gz", {f"PACS/{n}": c for n, c in pacs_files().items()}),
    "a zip": lambda root: zip_of(root / "pacs" / "PACS.zip", {f"x/{n}": c for n, c in pacs_files().items()}),
    "a zip a domain": lambda root: [
        zip_of(root / "pacs" / f"{d}.zip", {n: c for n, c in pacs_files().items() if n.startswith(d)})
        for d in ("photo", "art_painting", "cartoon", "sketch")
    ],
}


@pytest.mark.parametrize("place", PLACES)
def test_the_same_images_are_the_same_dataset_wherever_they_lie(tmp_path, place):
    PLACES[place](tmp_path / "root")

    dataset = loading.load(small(domains.pacs), tmp_path / "root", download=False)

    assert dataset.groups["domain"].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert dataset.labels.tolist() == [0, 6] * 4
    assert dataset.official == 8
    assert np.array_equal(
        dataset.inputs, np.stack([noise(10 * d + i)[1] for d in range(4) for i in range(2)])
    )


def test_nothing_but_the_cache_is_written_to(tmp_path):
    PLACES["a tar"](tmp_path / "root")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "root").rglob("*")}

    loading.load(small(domains.pacs), tmp_path / "root", download=False)

    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "root").rglob("*")} == before
    assert {path.name for path in tmp_path.iterdir()} <= {"root", "cache", "here"}
    assert not list((tmp_path / "cache").rglob("unfinished-*"))


def test_three_of_four_domains_are_not_the_dataset(tmp_path):
    put(tmp_path / "root" / "PACS", pacs_files(("photo", "art_painting", "cartoon")))

    with pytest.raises(DataNotFound, match=r"put the folders photo, art_painting, cartoon and sketch"):
        loading.load(domains.pacs(), tmp_path / "root", download=False)


def test_a_copy_that_lacks_images_is_refused_before_any_is_decoded(tmp_path, monkeypatch):
    PLACES["a folder of the name"](tmp_path / "root")
    monkeypatch.setattr("pluribus.data.pictures.decode", lambda *_: pytest.fail("decoded"))

    with pytest.raises(DataDamaged, match=r"8 \+ 0 images of 3x8x8; they should be 9991 \+ 0"):
        loading.load(domains.pacs(LOOK), tmp_path / "root", download=False)


def test_office_caltech_classes_are_known_under_both_spellings(tmp_path):
    names = ("back_pack", "laptop_computer", "mouse")
    put(tmp_path / "root", {f"{d}/{c}/1.jpg": noise(1, form="JPEG")[0]
                            for d in ("amazon", "Caltech", "dslr", "webcam") for c in names})  # fmt: skip

    dataset = loading.load(small(domains.office_caltech10), tmp_path / "root", download=False)

    assert dataset.labels.tolist() == [0, 5, 7] * 4
    assert dataset.classes[5] == "laptop"


def test_office_home_has_a_domain_with_a_space_in_its_name(tmp_path):
    names = ("Art", "Clipart", "Product", "Real World")
    files = {f"{name}/Alarm_Clock/1.jpg": noise(1, form="JPEG")[0] for name in names}
    put(tmp_path / "root" / "OfficeHomeDataset_10072016", files)

    dataset = loading.load(small(domains.office_home), tmp_path / "root", download=False)

    assert dataset.groups["domain"].tolist() == [0, 1, 2, 3]


def test_the_size_and_the_crop_are_part_of_the_name():
    assert data.entry("pacs:96").name == "pacs"
    assert data.entry("pacs:227").name == "pacs:size=227"
    assert data.entry("pacs:227").shape == (3, 227, 227)
    assert data.entry("office-caltech10:crop=once").name == "office-caltech10:crop=once"
    with pytest.raises(UnknownName):
        data.entry("mnist:size=32")


# DomainNet --------------------------------------------------------------------------------------------


def domainnet_files(root, packed):
    """Six domains with three images: two of zebra, one of axe, which the ten classes do not have."""
    names = ("clipart", "infograph", "painting", "quickdraw", "real", "sketch")
    for d, domain in enumerate(names):
        files = {
            f"{domain}/{c}/{i}.png": noise(10 * d + i)[0] for i, c in enumerate(("zebra", "zebra", "axe"))
        }
        zip_of(root / f"{domain}.zip", files) if packed else put(root, files)
        (root / f"{domain}_train.txt").write_text(f"{domain}/zebra/1.png 343\n{domain}/axe/2.png 11\n")
        (root / f"{domain}_test.txt").write_text(f"{domain}/zebra/0.png 343\n")
    return root


@pytest.mark.parametrize("packed", [True, False])
def test_domainnet_is_as_its_lists_say(tmp_path, packed):
    domainnet_files(tmp_path / "root" / "DomainNet", packed)

    dataset = loading.load(domains.domainnet(LOOK), tmp_path / "root", download=False)

    assert dataset.official == 12
    assert [dataset.classes[y] for y in dataset.labels[:2].tolist()] == ["zebra", "axe"]
    assert dataset.groups["domain"].tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 0, 1, 2, 3, 4, 5]
    assert np.array_equal(dataset.inputs[2], noise(11)[1])
    assert np.array_equal(dataset.inputs[13], noise(10)[1])


def test_the_ten_classes_of_fedbn_are_taken_out_of_the_whole(tmp_path):
    domainnet_files(tmp_path / "root" / "DomainNet", packed=False)

    dataset = loading.load(domains.domainnet(LOOK, ten=True), tmp_path / "root", download=False)

    assert (len(dataset), dataset.official) == (12, 6)
    assert {dataset.classes[y] for y in dataset.labels.tolist()} == {"zebra"}


def test_domainnet_numbers_its_classes_as_its_lists_do():
    classes = data.entry("domainnet").classes

    assert (len(classes), classes[343], classes[11], classes[0]) == (345, "zebra", "axe", "aircraft_carrier")


def test_an_image_of_a_list_that_is_not_there_is_named(tmp_path):
    root = domainnet_files(tmp_path / "root" / "DomainNet", packed=False)
    (root / "real" / "zebra" / "1.png").unlink()

    with pytest.raises(DataDamaged, match=r"real_train.txt names real/zebra/1.png, which is not there"):
        loading.load(domains.domainnet(LOOK), tmp_path / "root", download=False)


def test_a_list_that_is_a_web_page_is_refused(tmp_path):
    root = domainnet_files(tmp_path / "root" / "DomainNet", packed=False)
    (root / "real_train.txt").write_text("<html>moved</html>\n")

    with pytest.raises(DataDamaged, match=r"real_train.txt: expected lines like"):
        loading.load(domains.domainnet(LOOK), tmp_path / "root", download=False)


# hostile archives -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["../../slipped.png", "/slipped.png", "photo/../../../slipped.png", "c:/slipped.png"]
)
@pytest.mark.parametrize("pack", [tar_of, zip_of])
def test_a_name_that_would_leave_its_folder_is_refused(tmp_path, name, pack):
    suffix = "tar.gz" if pack is tar_of else "zip"
    pack(tmp_path / "root" / f"pacs.{suffix}", {**pacs_files(), name: picture(1)})

    with pytest.raises(DataDamaged, match=r"slipped.png', which would leave its folder"):
        loading.load(small(domains.pacs), tmp_path / "root", download=False)

    assert not list(tmp_path.rglob("*slipped*"))


@pytest.mark.parametrize("content", [b"<html>", b"", b"\x1f\x8b garbled"])
@pytest.mark.parametrize("name", ["pacs.tar.gz", "pacs.zip"])
def test_what_is_no_archive_is_refused(tmp_path, name, content):
    put(tmp_path / "root", {name: content})

    with pytest.raises(DataDamaged, match=f"{name}: expected a whole"):
        loading.load(small(domains.pacs), tmp_path / "root", download=False)


def test_an_archive_that_breaks_off_is_refused(tmp_path):
    tar = PLACES["a tar"](tmp_path / "root")
    tar.write_bytes(tar.read_bytes()[:-600])

    with pytest.raises(DataDamaged, match=r"PACS.tar.gz: expected a whole tar archive"):
        loading.load(small(domains.pacs), tmp_path / "root", download=False)


LINKS = {"a link": tarfile.SYMTYPE, "a hard link": tarfile.LNKTYPE, "a device": tarfile.CHRTYPE}


@pytest.mark.parametrize("kind", LINKS)
def test_links_and_devices_in_a_tar_are_passed_over(tmp_path, kind):
    (tmp_path / "secret.png").write_bytes(picture(9))
    path = tar_of(tmp_path / "root" / "pacs.tar", pacs_files(), "w")
    with tarfile.open(path, "a") as tar:
        member = tarfile.TarInfo("photo/dog/slipped.png")
        member.type, member.linkname = LINKS[kind], str(tmp_path / "secret.png")
        tar.addfile(member)

    dataset = loading.load(small(domains.pacs), tmp_path / "root", download=False)

    assert len(dataset) == 8


@pytest.mark.parametrize("suffix", ["zip", "tar.gz", "tar.bz2"])
def test_an_archive_that_unpacks_to_far_too_much_is_refused_before_it_is_unpacked(
    tmp_path, monkeypatch, suffix
):
    monkeypatch.setattr("pluribus.data.files.LARGE", 1 << 20)
    files, path = (
        {**pacs_files(), "photo/dog/zeros.png": bytes(2 << 20)},
        tmp_path / "root" / f"pacs.{suffix}",
    )
    if suffix == "zip":
        zip_of(path, files, zipfile.ZIP_DEFLATED)
    else:
        tar_of(path, files, f"w:{suffix.partition('.')[2]}")

    with pytest.raises(
        DataDamaged, match=rf"pacs.{suffix}: expected at most 100 times .*a decompression bomb"
    ):
        loading.load(small(domains.pacs), tmp_path / "root", download=False)


def test_a_tar_that_announces_more_than_it_has_is_refused_before_its_end_is_looked_for(tmp_path):
    member = tarfile.TarInfo("photo/dog/1.png")
    member.size = 1 << 50
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "pacs.tar.gz").write_bytes(gzip.compress(member.tobuf()))

    with pytest.raises(DataDamaged, match="a decompression bomb"):
        loading.load(small(domains.pacs), tmp_path / "root", download=False)


def test_few_large_files_wait_in_memory_at_a_time(monkeypatch):
    monkeypatch.setattr("pluribus.data.pictures.BYTES_AT_A_TIME", 100)
    files = [(row, f"{row}.png", bytes(size)) for row, size in enumerate((60, 60, 500, 1, 1))]

    batches, pairs = (
        [[row for row, *_ in batch] for batch in pictures.in_batches(iter(some), most=most)]
        for some, most in ((files, 64), (files[3:] * 2, 2))
    )

    assert batches == [[0, 1], [2], [3, 4]]
    assert pairs == [[3, 4], [3, 4]]


def test_a_file_in_an_archive_is_never_larger_than_an_image_can_be(tmp_path, monkeypatch):
    PLACES["a zip"](tmp_path / "root")
    monkeypatch.setattr("pluribus.data.rolls.LARGEST", 100)

    with pytest.raises(DataDamaged, match=r"expected at most 100 bytes"):
        loading.load(small(domains.pacs), tmp_path / "root", download=False)


# real -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        pytest.param(
            "office-caltech10", [958, 1123, 157, 295], marks=pytest.mark.real_data("office-caltech10")
        ),
        pytest.param("pacs", [1670, 2048, 2344, 3929], marks=pytest.mark.real_data("pacs")),
    ],
)
def test_real_images_by_domain_are_as_published(name, sizes):
    dataset = data.load(name, download=False)

    assert np.bincount(dataset.groups["domain"]).tolist() == sizes
    assert np.bincount(dataset.labels, minlength=len(dataset.classes)).min() > 0
