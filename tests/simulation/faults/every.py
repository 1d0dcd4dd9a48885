"""All faults that are planted."""

from typing import Final

from tests.simulation.faults import Fault
from tests.simulation.faults.carrying import CARRYING
from tests.simulation.faults.deciding import DECIDING
from tests.simulation.faults.recording import RECORDING

EVERY: Final[tuple[Fault, ...]] = (*RECORDING, *CARRYING, *DECIDING)
