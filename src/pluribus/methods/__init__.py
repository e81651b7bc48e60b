"""The catalogue. A method exists when its line is here."""

from ..method import Method
from .ditto import Ditto
from .dualfed import DualFed
from .fedala import FedALA
from .fedavg import FedAvg
from .fedbabu import FedBABU
from .fedbn import FedBN
from .fedcrc import FedCRC
from .feddyn import FedDyn
from .fedetf import FedETF
from .fedkd import FedKD
from .fedper import FedPer
from .fedproto import FedProto
from .fedprox import FedProx
from .fedreg import FedReG
from .fedrep import FedRep
from .fedrir import FedRIR
from .fedrod import FedRoD
from .fesem import FeSEM
from .l2gd import L2GD
from .lg_fedavg import LGFedAvg
from .local import Local
from .moon import MOON
from .per_fedavg import PerFedAvg
from .pfedpm import PFedPM
from .scaffold import SCAFFOLD
from .spherefed import SphereFed

METHODS: dict[str, type[Method]] = {
    "local": Local,
    "fedavg": FedAvg,
    "fedprox": FedProx,
    "feddyn": FedDyn,
    "scaffold": SCAFFOLD,
    "moon": MOON,
    "per-fedavg": PerFedAvg,
    "ditto": Ditto,
    "fedper": FedPer,
    "fedrep": FedRep,
    "fedrod": FedRoD,
    "fedbabu": FedBABU,
    "fedala": FedALA,
    "fedkd": FedKD,
    "lg-fedavg": LGFedAvg,
    "fedbn": FedBN,
    "spherefed": SphereFed,
    "fedetf": FedETF,
    "fesem": FeSEM,
    "l2gd": L2GD,
    "dualfed": DualFed,
    "fedproto": FedProto,
    "pfedpm": PFedPM,
    "fedcrc": FedCRC,
    "fedrir": FedRIR,
    "fedreg": FedReG,
}
