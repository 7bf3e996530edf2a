"""Where decisions may lie: numbers, actions, several parts, or one decision for several cases."""

from stakes.spaces.sharing import Shared
from stakes.spaces.single import Integers, Interval, OneOf, Real
from stakes.spaces.vector import Vector, laid_out, leading, seen

__all__ = [
    "Integers",
    "Interval",
    "OneOf",
    "Real",
    "Shared",
    "Vector",
    "laid_out",
    "leading",
    "seen",
]
