"""Settings: everything that decides the numbers of a run, and nothing else.

Settings(method="fedrep", data="fashion-mnist", clients=50, join="0.2", rounds=100)
Settings.from_toml(Path("settings.toml"))
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import msgspec
import tomli_w

from . import data as datasets
from . import spelling
from .cohort import Join
from .data.dataset import ScaleName
from .data.entry import Entry
from .data.partitions import PARTITIONS, Domain, Natural, Partition
from .data.partitions.partition import CLIENTS
from .device import Device, chosen_device, chosen_precision
from .errors import SettingError, UnknownName
from .method import Method
from .methods import METHODS
from .models import MODELS, read_models, write_models
from .readings.evaluate import PersonalOn
from .training import Training

MOST = 1_000_000  # rounds, clients, examples in a batch: more is a slip, and a plan is held in memory
HEADER = "# everything that decides the numbers; to repeat them: pluribus run --config settings.toml\n\n"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What is `auto`, None or left out, `resolved` fills in; `set` is always all of the method's fields."""

    method: str = "fedavg"
    set: dict[str, Any] = field(default_factory=dict)  # the method's own settings
    data: str = "mnist-5k"
    pool: Literal["auto", "mix", "train", "official"] = "auto"  # auto: the partition's usual one
    normalise: ScaleName = "half"
    partition: str = "dirichlet:0.1"
    clients: int | None = None  # None: 20, or as many as the partition has groups
    newcomers: int = 0  # of the clients: never asked, read at the end
    test: float | None = None  # None: 0.25, or 0.2 by domain where the papers do so
    val: float = 0.0
    model: str = "auto"  # auto: by the size of the images; several, for clients that differ: mlp:200|mlp:100
    rounds: int = 20
    join: str = "1"
    drop: float = 0.0
    quorum: float = 0.5
    statistics: Literal["method", "average", "local"] = "method"  # running statistics of batch normalisation
    training: Training = field(default_factory=lambda: Training(lr=0.05))
    eval_every: int = 1
    adapt_epochs: int = 5
    personal_on: PersonalOn = "received"
    device: Device = "cpu"  # cuda is written and was never run
    seed: int = 0
    data_seed: int | None = None  # None: the seed
    model_seed: int | None = None

    def __post_init__(self) -> None:
        for name, type_ in types_of(Settings).items():
            put(self, name, checked(getattr(self, name), type_, name))
        for name, type_ in types_of(Training).items():
            checked(getattr(self.training, name), type_, name)
        check_limits(self)
        self._spell()

    def _spell(self) -> None:
        """One spelling for one meaning: equal settings are equal texts."""
        name, own = method_and_set(self.method, self.set)
        put(self, "method", name)
        put(self, "set", own)
        put(self, "data", datasets.entry(self.data).name)
        put(self, "join", str(Join.read(self.join)))
        put(self, "partition", spelled(self.partition_value))
        if self.model != "auto":
            put(self, "model", write_models(read_models(self.model, MODELS), MODELS))

    # what the texts stand for -------------------------------------------------------------------------

    @property
    def method_value(self) -> Method:
        method: Method = spelling.make(METHODS[self.method], self.set, self.method)
        return method

    @property
    def partition_value(self) -> Partition:
        partition: Partition = spelling.read(self.partition, PARTITIONS, "partition")
        return partition

    def resolved(self) -> Settings:
        """The same settings, with everything filled in that was left open."""
        entry = datasets.entry(self.data)
        partition, test = usual_division(self.partition_value, entry)
        grouped = isinstance(partition, Natural | Domain)
        return replace(
            self,
            partition=spelled(partition),
            test=test if self.test is None else self.test,
            pool=partition.pools[0] if self.pool == "auto" else self.pool,
            clients=CLIENTS if self.clients is None and not grouped else self.clients,
            model=usual_model(entry.shape) if self.model == "auto" else self.model,
            device=(device := chosen_device(self.device)),
            training=replace(self.training, precision=chosen_precision(self.training.precision, device)),
            data_seed=self.seed if self.data_seed is None else self.data_seed,
            model_seed=self.seed if self.model_seed is None else self.model_seed,
        )

    @property
    def hash(self) -> str:
        """SHA-256 over all settings; of settings that are resolved, it names the run's numbers."""
        return hashlib.sha256(msgspec.json.encode(self.as_dict(), order="deterministic")).hexdigest()

    # other settings -----------------------------------------------------------------------------------

    def with_(self, **changes: Any) -> Settings:
        """The same settings but for these. Another method comes with its own defaults."""
        other = str(changes.get("method", self.method)).partition(":")[0] != self.method
        fresh: dict[str, Any] = {"set": {}} if other else {}
        return replace(self, **(fresh | changes))

    def with_given(self, given: Mapping[str, Any]) -> tuple[Settings, tuple[str, ...]]:
        """The settings with what was given by the flat names of the command line, and notes on it.

        Fields of the method come as texts (`set`: ["mu=0.1"]), those of training by their names, and
        `epochs` goes to methods that have a field of this name.
        """
        known = {*types_of(Settings), *types_of(Training), "epochs"} - {"training"}
        refuse_unknown(given, known, "setting")
        method, _, spelled = str(given.get("method", self.method)).partition(":")
        notes, generic = epochs_for(self.with_(method=method), given.get("epochs"))
        own = {**self.with_(method=method).set, **generic, **texts_for(method, spelled, given.get("set", ()))}
        training = {name: given[name] for name in types_of(Training) if name in given}
        if "lr_at" in training:
            training["lr_at"] = read_lr_at(training["lr_at"])
        plain = {n: v for n, v in given.items() if n in types_of(Settings) and n not in ("method", "set")}
        made: dict[str, Any] = {"training": trained_by(self.training, training), "method": method, "set": own}
        return replace(self, **plain, **made), notes

    # written ------------------------------------------------------------------------------------------

    def as_dict(self) -> dict[str, Any]:
        """Plain values: text, numbers, lists and tables; what is None is left out."""
        plain: dict[str, Any] = without_none(msgspec.to_builtins(self))
        return plain

    def to_toml(self) -> str:
        """The text from which `from_toml` makes equal settings."""
        return HEADER + tomli_w.dumps(self.as_dict())

    @classmethod
    def from_toml(cls, source: str | os.PathLike[str]) -> Settings:
        """The settings in this text, or in the file at this path."""
        text, where = (source, "") if isinstance(source, str) else (read_text(Path(source)), f"{source}: ")
        try:
            return cls.from_dict(tomllib.loads(text))
        except tomllib.TOMLDecodeError as error:
            raise SettingError(f"{where or 'settings: '}this is not TOML: {error}") from None
        except UnknownName as error:
            error.args = (f"{where}{error}",)
            raise
        except SettingError as error:
            raise SettingError(f"{where}{error}") from None

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Settings:
        """The settings of such a table; what it does not name has its default."""
        for name in values:
            if name in types_of(Training):
                raise SettingError(f"{name} is a setting of training\n    it belongs under [training]")
        refuse_unknown(values, types_of(cls), "setting")
        given = checked(values.get("training", {}), dict[str, Any], "training")
        return cls(**{**values, "training": trained_by(cls().training, given)})


def put(settings: Settings, name: str, value: Any) -> None:
    object.__setattr__(settings, name, value)


# types and limits -------------------------------------------------------------------------------------


def types_of(cls: type) -> dict[str, Any]:
    """Name and type of each field."""
    return spelling.fields(cls)


def refuse_unknown(given: Iterable[str], known: Iterable[str], kind: str) -> None:
    """An error if a name is none of those that are known."""
    names = list(known)
    for name in given:
        if name not in names:
            raise UnknownName(kind, name, names)


def checked(value: Any, type_: Any, name: str) -> Any:
    """The value, if it is of this type; a whole number is a fraction too, and for `join` a text."""
    if name == "join" and isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    if isinstance(type_, type) and dataclasses.is_dataclass(type_) and isinstance(value, type_):
        return value
    try:
        return msgspec.convert(value, type_)
    except msgspec.ValidationError as error:
        raise spelling.misfit(value, type_, name, str(error)) from None


def check_limits(settings: Settings) -> None:
    """An error that names the first setting whose value cannot be used."""
    least = {"clients": 1, "newcomers": 0, "rounds": 1, "eval_every": 1, "adapt_epochs": 0}
    for name, minimum in least.items():
        if (number := getattr(settings, name)) is not None and number < minimum:
            raise SettingError(f"{name} is {number}; it should be {minimum} or more")
    for name in ("test", "val", "drop"):
        if (portion := getattr(settings, name)) is not None and not 0 <= portion < 1:
            raise SettingError(f"{name} is {portion}; it should be a portion: 0 or more, and below 1")
    if not 0 <= settings.quorum <= 1:
        raise SettingError(f"quorum is {settings.quorum}; it should be a portion: from 0 to 1")
    check_sizes(settings)


def check_sizes(settings: Settings) -> None:
    """An error that names a number nobody means."""
    training = settings.training
    names = ("clients", "newcomers", "rounds", "eval_every", "adapt_epochs")
    numbers = {name: getattr(settings, name) for name in names} | {"batch": training.batch}
    for name, number in numbers.items():
        if number is not None and number > MOST:
            raise SettingError(f"{name} is {number}; it should be at most {MOST:,}")


# the parts of settings --------------------------------------------------------------------------------


def method_and_set(text: str, values: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Name and all fields of the method that is spelled so, with these values; what is spelled wins."""
    name, _, rest = text.strip().partition(":")
    if name not in METHODS:
        raise UnknownName("method", name, METHODS)
    spelled = spelling.given(rest, METHODS[name], name)
    method = spelling.make(METHODS[name], {**values, **spelled}, name)
    return name, {n: getattr(method, n) for n in types_of(METHODS[name])}


def texts_for(method: str, spelled: str, texts: Iterable[str]) -> dict[str, str]:
    """Fields of the method as they were given, by its spelling and by `--set name=value`."""
    if method not in METHODS:
        raise UnknownName("method", method, METHODS)
    values: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise SettingError(f"set is '{text}'; it should be name=value, e.g. {example_of(method)}")
        spelling.once(values, name.strip(), value.strip())
    return {**spelling.given(spelled, METHODS[method], method), **values}


def example_of(method: str) -> str:
    first = next((f for f in dataclasses.fields(METHODS[method]) if f.init), None)
    return f"{first.name}={spelling.as_text(first.default)}" if first else "epochs=1"


def epochs_for(settings: Settings, epochs: int | None) -> tuple[tuple[str, ...], dict[str, int]]:
    """The field that the number of epochs is for; a note if the method has none of this name."""
    if epochs is None or "epochs" in settings.set:
        return (), {} if epochs is None else {"epochs": epochs}
    own = ", ".join(f"{n} = {v}" for n, v in settings.set.items() if "epochs" in n) or "as the method says"
    return (f"{settings.method} has no setting 'epochs'; it keeps its own: {own}",), {}


def trained_by(default: Training, given: Mapping[str, Any]) -> Training:
    """This training, with what is given in its place."""
    types = types_of(Training)
    refuse_unknown(given, types, "setting of training")
    return replace(default, **{name: checked(value, types[name], name) for name, value in given.items()})


def read_lr_at(texts: Iterable[Any]) -> tuple[Any, ...]:
    """`50=0.01`: from round 50 on the rate is 0.01. What is a pair already stays one."""
    return tuple(pair(text) if isinstance(text, str) else text for text in texts)


def pair(text: str) -> tuple[int, float]:
    number, _, rate = text.partition("=")
    try:
        return int(number), float(rate)
    except ValueError:
        raise SettingError(f"lr_at is '{text}'; it should be round=rate, e.g. 50=0.01") from None


def spelled(partition: Partition) -> str:
    """The partition's text with its first field always in it: `dirichlet:0.1`, though 0.1 is usual."""
    name, _, rest = spelling.write(partition, PARTITIONS).partition(":")
    first = next(iter(types_of(type(partition))), "")
    if not first or getattr(partition, first) is None:
        return f"{name}:{rest}" if rest else name
    others = [piece for piece in rest.split(",") if piece and not piece.startswith(f"{first}=")]
    return f"{name}:{','.join([spelling.as_text(getattr(partition, first)), *others])}"


def usual_division(partition: Partition, entry: Entry) -> tuple[Partition, float]:
    """The partition and the portion for testing; by domain they are the papers', if there are any."""
    if not isinstance(partition, Domain) or entry.by_domain is None:
        return partition, 0.25
    return Domain(partition.limit or entry.by_domain), 0.2


def usual_model(shape: tuple[int, ...]) -> str:
    """A model that learns such images: what is tiny needs no convolution."""
    if min(shape[1:]) < 16:
        return "mlp"
    return "pfllib-cnn" if shape[0] == 1 else "convnet"


# text ---------------------------------------------------------------------------------------------------


def read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise SettingError(f"cannot read the settings in {path}: {reason}") from None


def without_none(value: Any) -> Any:
    """The same tables and lists without what is None: TOML has no word for it."""
    if isinstance(value, dict):
        return {n: without_none(v) for n, v in value.items() if v is not None}
    return [without_none(v) for v in value] if isinstance(value, list | tuple) else value
