"""A restaurant's orders by a hand-written model: a program whose calls and time are measured.

Run `python -m benchmarks.orders`.
"""

import jax
import numpyro
import numpyro.distributions as dist

import stakes


def main() -> None:
    days = stakes.datasets.newsvendor().query("is_closed == 0")  # a restaurant, day by day
    days["last_week"] = days["steak"].shift(7)  # the rule of today: cook what was sold a week ago
    days = days.tail(364)

    def demand(weekday, steak=None):
        level = numpyro.sample("level", dist.Normal(3, 1))
        spread = numpyro.sample("spread", dist.LogNormal(2, 1))
        with numpyro.plate("day_of_week", 7):
            effect = numpyro.sample("effect", dist.Normal(0, 0.5))
        with numpyro.plate("day", len(weekday)):
            rate = jax.numpy.exp(level + effect[weekday])
            numpyro.sample("steak", dist.NegativeBinomial2(rate, spread), obs=steak)

    # A portion short loses a sale worth 3, a portion left over has cost 1.
    problem = stakes.Problem(demand, outcome="steak", loss=stakes.Newsvendor(under=3, over=1))
    today = stakes.Given(days["last_week"])
    ways = [stakes.Plain(), stakes.Corrected(stakes.Plain(), stakes.Shift()), stakes.Same(), today]
    table = days[["weekday", "steak"]]
    orders = stakes.choose(jax.random.key(0), problem, table, ways, folds=stakes.Forward())

    print(orders.decide(days[["weekday"]].head(7).set_index("weekday", drop=False)))
    print(orders.verdict)  # and `print(orders)` has all ways, with risks, intervals and seconds


if __name__ == "__main__":
    main()
