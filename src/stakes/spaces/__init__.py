"""Where decisions may lie: numbers, actions or several parts; and which cases share one."""

from stakes.spaces.sharing import ALONE, Shared
from stakes.spaces.single import Integers, Interval, OneOf, Real
from stakes.spaces.vector import Vector

__all__ = ["ALONE", "Integers", "Interval", "OneOf", "Real", "Shared", "Vector"]
