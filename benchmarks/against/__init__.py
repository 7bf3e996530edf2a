"""`stakes` against the tools people use instead, on real problems: `make against`.

`problems/` has the data, splits, features and models; `costs` what a decision costs; `rivals` the
other tools and `tuning` how they are tuned; `ours` the ways of `stakes`; `scoring` the differences
and their intervals; `keeping` what is stored; `page` and `figure` the page in the docs.
"""
