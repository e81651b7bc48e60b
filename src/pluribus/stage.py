"""A stage: one exchange between the server and some of its clients, or half of one."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Stage:
    """(name, round) is unique in a plan; the stages of a round share its cohort."""

    name: str
    round: int
    rounds: int
    everyone: bool = False  # not the cohort only; asked again until they have answered
    send: bool = True  # the server sends a message
    reply: bool = True  # the clients send an upload


# Messages that are evaluated, never trained on: one for each question about prediction.
PERSONAL, GENERIC, WELCOME = (Stage(name, 0, 0, reply=False) for name in ("personal", "generic", "welcome"))
