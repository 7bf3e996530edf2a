"""Costs of the three actions."""

import numpy as np

from examples import remediation


def test_remediation_costs_what_its_table_says():
    actions = np.array(["leave", "test again", "remediate", "leave"])
    levels = np.log(np.array([3.0, 4.0, 20.0, 10.0]))
    np.testing.assert_array_equal(remediation.costs(actions, levels), [0, 2450, 2000, 12000])
    loss, codes = remediation.problem().loss, np.array([0, 1, 2, 0])
    np.testing.assert_array_equal(loss(levels, codes), remediation.costs(actions, levels))
