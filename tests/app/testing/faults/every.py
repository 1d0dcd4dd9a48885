"""All faults that are planted."""

from typing import Final

from tests.app.testing.faults import Fault
from tests.app.testing.faults.carrying import CARRYING
from tests.app.testing.faults.deciding import DECIDING
from tests.app.testing.faults.ending import ENDING
from tests.app.testing.faults.filing import FILING
from tests.app.testing.faults.iteming import ITEMING
from tests.app.testing.faults.judging import JUDGING
from tests.app.testing.faults.learning import LEARNING
from tests.app.testing.faults.recording import RECORDING
from tests.app.testing.faults.stating import STATING

EVERY: Final[tuple[Fault, ...]] = (
    *RECORDING,
    *CARRYING,
    *DECIDING,
    *ENDING,
    *FILING,
    *ITEMING,
    *JUDGING,
    *STATING,
    *LEARNING,
)
