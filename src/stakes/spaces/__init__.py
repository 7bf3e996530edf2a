"""Where decisions may lie: numbers, actions or several parts; and which cases share one.

Each space is a value that knows its nearest decision to any number, and the way to a line without
limits, where gradients can be followed.
"""

from stakes.spaces.sharing import ALONE as ALONE
from stakes.spaces.sharing import Shared as Shared
from stakes.spaces.single import Integers as Integers
from stakes.spaces.single import Interval as Interval
from stakes.spaces.single import OneOf as OneOf
from stakes.spaces.single import Real as Real
from stakes.spaces.vector import Vector as Vector
