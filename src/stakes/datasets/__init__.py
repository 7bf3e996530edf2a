"""Small real data sets to try decisions on; README.md beside this file has sources and terms."""

from stakes.datasets.external import lastfm
from stakes.datasets.shipped import DISHES, bank_marketing, newsvendor, radon, retail

__all__ = ["DISHES", "bank_marketing", "lastfm", "newsvendor", "radon", "retail"]
