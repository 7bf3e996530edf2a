"""What the sections of a spec share."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from stakes.app.spec.messages import FieldErrors

PYTHON = r"^[^:]+\.py:[A-Za-z_][A-Za-z_0-9]*$"
Python = Annotated[str, Field(pattern=PYTHON)]
CODE = "a Python file and a name in it, such as 'model.py:model'"


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def check_either(section: Section, one: str, other: str) -> None:
    if (getattr(section, one) is None) == (getattr(section, other) is None):
        raise FieldErrors(("", f"needs either `{one}` or `{other}`, and not both"))


POSITIVE = "a number above zero"
COUNT = "a whole number above zero"
