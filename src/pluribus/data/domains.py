"""Images by domain and class: Office-Caltech10, PACS, Office-Home and DomainNet.

They come as folders DOMAIN/CLASS/FILE, or as archives of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from ..errors import DataDamaged
from .domainnet_classes import DOMAINNET_CLASSES, FEDBN_CLASSES
from .entry import Arrays, Entry, Look, Tree
from .files import damaged, opened
from .pictures import Pictures, is_image
from .rolls import AnyRoll, Folder, is_archive, roll

GENERIC = ("data", "dataset", "datasets", "images", "kfold", "raw")
MOST_FOLDERS = 60


@dataclass(frozen=True)
class Kinds:
    """Domains and classes by the plain spellings that their folders may have."""

    domains: Mapping[str, int]
    classes: Mapping[str, int]

    def of(self, name: str) -> tuple[int, int] | None:
        """Domain and class of a file: the last folder that names a class, below one that names a domain."""
        folders = [plain(part) for part in name.split("/")[:-1]]
        starts = [i for i, part in enumerate(folders) if part in self.domains]
        below = [part for part in folders[starts[0] + 1 :] if part in self.classes] if starts else []
        return (self.domains[folders[starts[0]]], self.classes[below[-1]]) if below else None


def plain(name: str) -> str:
    """Small letters and digits only: 'Real World', 'Real_World' and 'real-world' are one."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def kinds(domains: Mapping[str, Sequence[str]], classes: Sequence[str]) -> Kinds:
    """Each domain by its name and its other spellings; each class by its name."""
    spelt = {plain(s): i for i, (name, also) in enumerate(domains.items()) for s in (name, *also)}
    return Kinds(spelt, {plain(name): i for i, name in enumerate(classes)})


# finding ----------------------------------------------------------------------------------------------


def find(root: Path, *, prefixes: Sequence[str], kinds: Kinds, lists: bool = False) -> tuple[Path, ...]:
    """The folder of each domain, or its archive, or the one archive of all; empty if one is missing."""
    for folder in near(root, prefixes):
        inside = listing(folder)
        if whole := by_domain(inside, kinds):
            found = official_lists(folder, kinds) if lists else ()
            if found or not lists:
                return (*whole, *found)
        archives = (path for path in inside if is_archive(path.name))
        packed = next((path for path in archives if plain(path.name).startswith(tuple(prefixes))), None)
        if packed and not lists:
            return (packed,)
    return ()


def near(root: Path, prefixes: Sequence[str]) -> Iterator[Path]:
    """The root, the folders in it whose names tell, and the folders in those."""
    yield root
    telling = (path for path in listing(root) if tells(plain(path.name), prefixes) and path.is_dir())
    for folder in telling:
        yield folder
        yield from (inner for inner in listing(folder)[:MOST_FOLDERS] if inner.is_dir())


def tells(name: str, prefixes: Sequence[str]) -> bool:
    return name.startswith(tuple(prefixes)) or name in GENERIC


def listing(folder: Path) -> list[Path]:
    """What is in the folder, in order; nothing if it cannot be entered."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def by_domain(paths: Sequence[Path], kinds: Kinds) -> tuple[Path, ...]:
    """A folder or an archive for each domain, in order; folders are preferred."""
    found: dict[int, Path] = {}
    for path in sorted(paths, key=lambda path: (is_archive(path.name), path.name), reverse=True):
        domain = kinds.domains.get(plain(path.name.partition(".")[0]))
        if domain is not None and (is_archive(path.name) or path.is_dir()):
            found[domain] = path
    wanted = set(kinds.domains.values())
    return tuple(found[domain] for domain in sorted(found)) if set(found) == wanted else ()


def official_lists(folder: Path, kinds: Kinds) -> tuple[Path, ...]:
    """clipart_train.txt, clipart_test.txt and so on, all of them; empty if one is missing."""
    names = {domain: name for name, domain in reversed(list(kinds.domains.items()))}
    for place in (folder, folder / "txt", folder / "splits", folder / "image_list"):
        files = [place / f"{names[d]}_{part}.txt" for part in ("train", "test") for d in sorted(names)]
        if all(file.is_file() for file in files):
            return tuple(files)
    return ()


# reading ----------------------------------------------------------------------------------------------


def read(paths: Sequence[Path], *, title: str, kinds: Kinds, look: Look) -> Arrays:
    """Rows in the order of domains, classes and names; all train, as nothing is official."""
    rolls = [roll(path) for path in paths]
    found = sorted(
        (*kind, key, number, name)
        for number, one in enumerate(rolls)
        for name, key in images(one)
        if (kind := kinds.of(key))
    )
    rows: list[dict[str, int]] = [{} for _ in rolls]
    for row, (_, _, _, number, name) in enumerate(found):
        rows[number][name] = row
    return arrays(title, rolls, rows, look, [one[:2] for one in found], len(found))


def images(one: AnyRoll) -> Iterator[tuple[str, str]]:
    """The names of images in it, and the same with the folder's own name before."""
    before = f"{one.path.name}/" if isinstance(one, Folder) else ""
    yield from ((name, before + name) for name in one.names() if is_image(name))


def read_listed(paths: Sequence[Path], *, title: str, kinds: Kinds, look: Look) -> Arrays:
    """Rows as the official lists name them: those for training, then those for testing."""
    lists = [path for path in paths if path.suffix == ".txt"]
    rolls = [roll(path) for path in paths if path.suffix != ".txt"]
    where = {tail(key): (number, name) for number, one in enumerate(rolls) for name, key in images(one)}
    rows: list[dict[str, int]] = [{} for _ in rolls]
    found: list[tuple[int, int]] = []
    official = 0
    for path in lists:
        for line in lines(path):
            if kind := kinds.of(line):
                number, name = present(where, line, path)
                rows[number][name] = len(found)
                found.append(kind)
        official = len(found) if path.stem.endswith("_train") else official
    return arrays(title, rolls, rows, look, found, official)


def tail(name: str) -> str:
    """DOMAIN/CLASS/FILE."""
    return "/".join(name.split("/")[-3:])


def lines(path: Path) -> Iterator[str]:
    """The names of a list; the number of the class behind each is passed over, its folder says the same."""
    with opened(path) as stream:
        for line in stream.read().decode(errors="replace").splitlines():
            name, _, number = line.rpartition(" ")
            if line and not (number.isdigit() and name.count("/") >= 2):
                raise damaged(path, "lines like 'clipart/zebra/clipart_001_000001.jpg 343'", f"'{line[:60]}'")
            yield name


def present(where: Mapping[str, tuple[int, str]], line: str, path: Path) -> tuple[int, str]:
    if tail(line) not in where:
        raise DataDamaged(
            f"{path} names {line}, which is not there\n    unpack the domain's archive again, whole"
        )
    return where[tail(line)]


def arrays(
    title: str,
    rolls: Sequence[AnyRoll],
    rows: Sequence[Mapping[str, int]],
    look: Look,
    found: Sequence[tuple[int, ...]],
    official: int,
) -> Arrays:
    """Labels and domains of these images, which are still to be decoded."""
    table = np.array(found, np.int64).reshape(-1, 2)
    pictures = Pictures(title, list(zip(rolls, rows, strict=True)), look, official)
    return Arrays(pictures, table[:, 1].copy(), official, {"domain": table[:, 0].copy()})


# the catalogue ----------------------------------------------------------------------------------------

OFFICE_CALTECH_DOMAINS: dict[str, Sequence[str]] = {
    "amazon": (),
    "caltech": ("caltech10",),
    "dslr": (),
    "webcam": (),
}
OFFICE_CALTECH_CLASSES = (
    "backpack", "bike", "calculator", "headphones", "keyboard",
    "laptop", "monitor", "mouse", "mug", "projector",
)  # fmt: skip
LAPTOP = {"laptopcomputer": 5, "touringbike": 1, "computerkeyboard": 4, "computermonitor": 6,
          "computermouse": 7, "coffeemug": 8, "videoprojector": 9, "headphone": 3}  # fmt: skip
PACS_DOMAINS = {"photo": (), "art": ("art_painting",), "cartoon": (), "sketch": ()}
PACS_CLASSES = ("dog", "elephant", "giraffe", "guitar", "horse", "house", "person")
OFFICE_HOME_DOMAINS = {"art": (), "clipart": (), "product": (), "real": ("real_world",)}
OFFICE_HOME_CLASSES = tuple(
    """Alarm_Clock Backpack Batteries Bed Bike Bottle Bucket Calculator Calendar Candles Chair Clipboards
    Computer Couch Curtains Desk_Lamp Drill Eraser Exit_Sign Fan File_Cabinet Flipflops Flowers Folder
    Fork Glasses Hammer Helmet Kettle Keyboard Knives Lamp_Shade Laptop Marker Monitor Mop Mouse Mug
    Notebook Oven Pan Paper_Clip Pen Pencil Postit_Notes Printer Push_Pin Radio Refrigerator Ruler
    Scissors Screwdriver Shelf Sink Sneakers Soda Speaker Spoon TV Table Telephone ToothBrush Toys
    Trash_Can Webcam""".split()  # noqa: SIM905 - words are read as words
)
DOMAINNET_DOMAINS: dict[str, Sequence[str]] = dict.fromkeys(
    ("clipart", "infograph", "painting", "quickdraw", "real", "sketch"), ()
)


def named(base: str, look: Look, usual: Look) -> str:
    """The name, with what is not usual about the look: pacs:size=227."""
    changed = {n: v for n, v in vars(look).items() if v != getattr(usual, n)}
    return f"{base}:{','.join(f'{n}={v}' for n, v in changed.items())}" if changed else base


def office_caltech10(look: Look = Look(64)) -> Entry:
    """Office-Caltech10 with its images taken so."""
    name = named("office-caltech10", look, Look(64))
    found = kinds(OFFICE_CALTECH_DOMAINS, OFFICE_CALTECH_CLASSES)
    known = Kinds(found.domains, {**found.classes, **LAPTOP})
    return Entry(
        name=name,
        title="Office-Caltech10, office objects in four domains",
        shape=look.shape,
        train=2_533,
        test=0,
        classes=OFFICE_CALTECH_CLASSES,
        licence="none stated; for research",
        homepage="https://www.cs.utexas.edu/~grauman/papers/GFK_CVPR2012.pdf",
        citation="""@inproceedings{gong2012geodesic,
  title     = {Geodesic Flow Kernel for Unsupervised Domain Adaptation},
  author    = {Gong, Boqing and Shi, Yuan and Sha, Fei and Grauman, Kristen},
  booktitle = {CVPR},
  year      = {2012}
}""",
        forms=(
            Tree(
                partial(find, prefixes=("officecaltech",), kinds=known),
                partial(read, title=name, kinds=known, look=look),
            ),
        ),
        wanted="the folders amazon, Caltech, dslr and webcam, or the archive of all four,",
        varies=look.broken == "skip",
        look=look,
        looked=office_caltech10,
    )


def pacs(look: Look = Look(96)) -> Entry:
    """PACS with its images taken so."""
    name, known = named("pacs", look, Look(96)), kinds(PACS_DOMAINS, PACS_CLASSES)
    return Entry(
        name=name,
        title="PACS: photos, art paintings, cartoons and sketches",
        shape=look.shape,
        train=9_991,
        test=0,
        classes=PACS_CLASSES,
        licence="none stated; for research",
        homepage="https://sketchx.eecs.qmul.ac.uk/downloads/",
        citation="""@inproceedings{li2017deeper,
  title     = {Deeper, Broader and Artier Domain Generalization},
  author    = {Li, Da and Yang, Yongxin and Song, Yi-Zhe and Hospedales, Timothy M.},
  booktitle = {ICCV},
  year      = {2017}
}""",
        forms=(
            Tree(
                partial(find, prefixes=("pacs",), kinds=known),
                partial(read, title=name, kinds=known, look=look),
            ),
        ),
        wanted="the folders photo, art_painting, cartoon and sketch, or the archive of all four,",
        varies=look.broken == "skip",
        by_domain=500,
        look=look,
        looked=pacs,
    )


def office_home(look: Look = Look(96)) -> Entry:
    """Office-Home with its images taken so."""
    name, known = named("office-home", look, Look(96)), kinds(OFFICE_HOME_DOMAINS, OFFICE_HOME_CLASSES)
    return Entry(
        name=name,
        title="Office-Home: 65 everyday objects in four domains",
        shape=look.shape,
        train=15_588,
        test=0,
        classes=OFFICE_HOME_CLASSES,
        licence="for non-commercial research and education",
        homepage="https://www.hemanthdv.org/officeHomeDataset.html",
        citation="""@inproceedings{venkateswara2017deep,
  title     = {Deep Hashing Network for Unsupervised Domain Adaptation},
  author    = {Venkateswara, Hemanth and Eusebio, Jose and Chakraborty, Shayok and
               Panchanathan, Sethuraman},
  booktitle = {CVPR},
  year      = {2017}
}""",
        forms=(
            Tree(
                partial(find, prefixes=("officehome",), kinds=known),
                partial(read, title=name, kinds=known, look=look),
            ),
        ),
        wanted="the folders Art, Clipart, Product and Real World, or the archive of all four,",
        varies=look.broken == "skip",
        by_domain=2_000,
        look=look,
        looked=office_home,
    )


def domainnet(look: Look = Look(64), *, ten: bool = False) -> Entry:
    """DomainNet with its images taken so; all classes, or the ten of FedBN."""
    base, classes = ("domainnet10", FEDBN_CLASSES) if ten else ("domainnet", DOMAINNET_CLASSES)
    name, known = named(base, look, Look(64)), kinds(DOMAINNET_DOMAINS, classes)
    return Entry(
        name=name,
        title=f"DomainNet in six domains, {'the ten classes of FedBN' if ten else 'all classes'}",
        shape=look.shape,
        train=0 if ten else 409_832,
        test=0 if ten else 176_743,
        classes=classes,
        licence="none stated; for research, the images are their owners'",
        homepage="https://ai.bu.edu/M3SDA/",
        citation="""@inproceedings{peng2019moment,
  title     = {Moment Matching for Multi-Source Domain Adaptation},
  author    = {Peng, Xingchao and Bai, Qinxun and Xia, Xide and Huang, Zijun and Saenko, Kate and
               Wang, Bo},
  booktitle = {ICCV},
  year      = {2019}
}""",
        forms=(
            Tree(
                partial(find, prefixes=("domainnet",), kinds=known, lists=True),
                partial(read_listed, title=name, kinds=known, look=look),
            ),
        ),
        wanted="the archives or folders of the six domains with clipart_train.txt, clipart_test.txt, ...",
        varies=True,
        by_domain=500,
        look=look,
        looked=partial(domainnet, ten=ten),
    )
