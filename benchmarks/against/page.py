"""placeholder"""


def write():
    pass
