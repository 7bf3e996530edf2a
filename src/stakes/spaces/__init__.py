"""Where decisions may lie: numbers, actions or several parts; and which cases share one."""

from stakes.spaces.sharing import ALONE as ALONE
from stakes.spaces.sharing import Shared as Shared
from stakes.spaces.single import Integers as Integers
from stakes.spaces.single import Interval as Interval
from stakes.spaces.single import OneOf as OneOf
from stakes.spaces.single import Real as Real
from stakes.spaces.vector import Vector as Vector
