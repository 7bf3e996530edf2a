"""What every demo offers."""

import pytest

from stakes import Problem, demos


@pytest.mark.parametrize("name", demos.NAMES)
def test_a_demo_has_a_problem_with_data_and_outcomes(name):
    demo = demos.load(name)
    assert demo.path.is_file()
    problem, data = demo.problem(), demo.data()
    assert isinstance(problem, Problem)
    assert problem.outcome in data
    if demo.held_out is not None:
        assert demo.held_out().keys() <= data.keys()
    assert set(demo.known) <= set(demo.labels())
