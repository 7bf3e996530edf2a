"""What a formula may say, by these rules.

Its text is data: nothing but what is listed here is passed on to formulae.

    formula    = response "~" sum
    response   = column | ("p" | "prop" | "proportion") "(" column "," trials ")"
    trials     = number | column
    sum        = ["+" | "-"] power {("+" | "-" | "*" | "/" | ":") power}
    power      = atom ["**" number]
    atom       = "0" | "1" | "(" sum ["|" group] ")" | named
    group      = column {":" column}
    named      = column | function "(" expression {"," [name "="] number} ")"
    expression = ["+" | "-"] operand {("+" | "-" | "*" | "/" | "**") ["+" | "-"] operand}
    operand    = number | "(" expression ")" | named

Lengths and depths are limited, so that no formula takes long to read or makes millions of columns.
"""

import keyword
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, NoReturn, final

from stakes.errors import InputError, some, suggestion

# Functions of one expression.
MATHS = ("abs", "exp", "log", "log1p", "sqrt")
# All functions, with the settings they take and the largest value of each: a basis of more columns
# takes much memory, and learns nothing.
FUNCTIONS: dict[str, dict[str, float]] = {
    **{name: {} for name in (*MATHS, "center", "scale", "standardize", "C", "I", "offset")},
    "bs": {"df": 50, "degree": 10},
    "cr": {"df": 50},
    "cc": {"df": 50, "period": 1e12},
    "poly": {"degree": 10},
}
PROPORTIONS = ("p", "prop", "proportion")
# The most characters, tokens and nested brackets of a formula: so reading it takes no time,
# and formulae, which calls itself for each bracket, does not run out of stack.
LONGEST = 2000
MOST_TOKENS = 300
DEEPEST = 12
# Products with `*` in one formula: each doubles the number of terms. Also the largest power.
MOST_CROSSED = 5
TOKEN = re.compile(
    r"\s*(?:(?P<name>[^\W\d_]\w*)|(?P<number>[0-9]{1,12}(?:\.[0-9]{1,12})?)|(?P<op>\*\*|[~+\-*/:|(),=]))"
)


class Token(NamedTuple):
    """A name, a number or a sign of a formula.

    Attributes:
        kind: "name", "number", "op" for a sign, or "end".
        text: as written.
        at: its place in the formula.
    """

    kind: str
    text: str
    at: int


@final
@dataclass
class Parsed:
    """A formula that has been found harmless.

    Attributes:
        response: the column of the outcomes.
        trials: how many trials they are of, or the column that says so; None for other outcomes.
        right: the part after `~`.
        names: columns on the right, except for those that only name groups; ordered, hence a dict.
        groups: columns that name groups; ordered, hence a dict.
    """

    response: str = ""
    trials: str | int | None = None
    right: str = ""
    names: dict[str, None] = field(default_factory=dict)
    groups: dict[str, None] = field(default_factory=dict)


def parse(text: str, columns: Sequence[str], parts: Sequence[str] = ()) -> Parsed:
    """Read a formula that has nothing but known columns, functions, operators and numbers.

    Args:
        text: the formula.
        columns: of the table.
        parts: further names: what can be asked of columns of dates.

    Raises:
        InputError: with the place of what is refused.

    Examples:
        >>> parsed = parse("sold ~ log(price) + (1 | store)", ["sold", "price", "store"])
        >>> parsed.response, list(parsed.names), list(parsed.groups)
        ('sold', ['price'], ['store'])
    """
    if len(text) > LONGEST:
        raise InputError(f"`formula(text)` has {len(text)} characters; at most {LONGEST} will do.")
    reader = _Parser(text, _tokens(text), columns, parts)
    return reader.formula()


def _tokens(text: str) -> list[Token]:
    """The names, numbers and signs of a formula, and a token for its end."""
    tokens: list[Token] = []
    at = 0
    stripped = text.rstrip()
    while at < len(stripped):
        match = TOKEN.match(stripped, at)
        if match is None:
            gap = len(stripped[at:]) - len(stripped[at:].lstrip())
            _refuse(text, at + gap, f"{stripped[at + gap]!r} has no place in a formula")
        kind = str(match.lastgroup)
        tokens.append(Token(kind, match[kind], match.start(kind)))
        at = match.end()
    if len(tokens) > MOST_TOKENS:
        raise InputError(f"`formula(text)` is too long: {len(tokens)} words and signs.")
    return [*tokens, Token("end", "", len(stripped))]


def _refuse(text: str, at: int, why: str) -> NoReturn:
    """Refuse a formula, with the place and what a formula may have."""
    shown = text if len(text) <= 100 else f"{text[:97]}..."
    raise InputError(
        f"`formula(text)`: {why} (character {at + 1} of {shown!r}). A formula has names of "
        f"columns, numbers, `~ + - * / : ** | ( )` and the functions {', '.join(FUNCTIONS)}."
    )


@final
class _Parser:
    """Goes through the tokens once, by the rules above, and notes the columns.

    There is a method for each rule. Each begins at `token`, and leaves `token` behind what it has
    read.
    """

    def __init__(
        self, text: str, tokens: list[Token], columns: Sequence[str], parts: Sequence[str]
    ) -> None:
        self.text, self.tokens, self.columns = text, tokens, list(columns)
        self.known = {*columns, *parts}
        self.at = self.depth = self.crossed = 0
        self.parsed = Parsed()

    @property
    def token(self) -> Token:
        """The token to be read next."""
        return self.tokens[self.at]

    def refuse(self, why: str, token: Token | None = None) -> NoReturn:
        """Refuse the formula at this token, or at the next one."""
        _refuse(self.text, (token or self.token).at, why)

    def take(self, *texts: str) -> Token | None:
        """Read a sign, if it is one of these; None otherwise."""
        if self.token.kind != "op" or self.token.text not in texts:
            return None
        self.at += 1
        return self.tokens[self.at - 1]

    def need(self, text: str) -> Token:
        """Read a sign that must be here."""
        token = self.take(text)
        if token is None:
            came = "the formula ends" if self.token.kind == "end" else f"{self.token.text!r} stands"
            self.refuse(f"{came} where {text!r} was expected")
        return token

    def formula(self) -> Parsed:
        """Rule: `formula = response "~" sum`."""
        self.response()
        start = self.need("~")
        self.parsed.right = self.text[start.at + 1 :].strip()
        self.sum(top=True)
        if self.token.kind != "end":
            self.refuse(f"{self.token.text!r} has no place here")
        if self.parsed.response in self.parsed.names or self.parsed.response in self.parsed.groups:
            self.refuse(f"{self.parsed.response!r} is on both sides", start)
        return self.parsed

    def response(self) -> None:
        """Rule: `response = column | proportion "(" column "," trials ")"`."""
        token = self.name()
        if token.text in PROPORTIONS and self.take("("):
            self.parsed.response = self.column(self.name())
            self.need(",")
            self.parsed.trials = self.trials()
            self.need(")")
        else:
            self.parsed.response = self.column(token)

    def trials(self) -> str | int:
        """Rule: `trials = number | column`."""
        if self.token.kind == "number":
            number = self.number()
            if number != int(number) or number < 1:
                self.refuse("the number of trials must be a whole number above zero")
            return int(number)
        return self.column(self.name())

    def name(self) -> Token:
        """Read a name that can be one of Python, without characters that only look like others."""
        token = self.token
        if token.kind != "name":
            came = "the formula ends" if token.kind == "end" else f"{token.text!r} stands"
            self.refuse(f"{came} where a name was expected")
        plain = unicodedata.normalize("NFKC", token.text)
        if not token.text.isidentifier() or keyword.iskeyword(token.text) or plain != token.text:
            self.refuse(f"{token.text!r} cannot be the name of a column")
        if token.text.endswith("__"):
            self.refuse(f"{token.text!r} cannot be the name of a column")
        self.at += 1
        return token

    def column(self, token: Token) -> str:
        """Check that a name is that of a column."""
        if self.token.kind == "op" and self.token.text == "(":
            self.refuse(
                f"formulas have no function {token.text!r}.{suggestion(token.text, FUNCTIONS)}",
                token,
            )
        if token.text not in self.known:
            self.refuse(
                f"the table has no column {token.text!r}.{suggestion(token.text, self.columns)}",
                token,
            )
        return token.text

    def number(self) -> float:
        """Read a number."""
        token = self.token
        if token.kind != "number":
            self.refuse(f"a number was expected where {token.text or 'the end'!r} stands")
        self.at += 1
        return float(token.text)

    def sum(self, *, top: bool = False) -> None:
        """Rule: `sum = [sign] power {sign power}`; formulae knows which sign binds closer."""
        self.deeper()
        self.take("+", "-")
        self.power(top=top)
        while sign := self.take("+", "-", "*", "/", ":"):
            if sign.text in "*/":
                self.cross(sign)
            self.power(top=top and sign.text in "+-")
        self.depth -= 1

    def cross(self, sign: Token) -> None:
        """Count a product, which doubles the number of terms."""
        self.crossed += 1
        if self.crossed > MOST_CROSSED:
            self.refuse(f"there are more than {MOST_CROSSED} products", sign)

    def power(self, *, top: bool) -> None:
        """Rule: `power = atom ["**" number]`."""
        self.atom(top=top)
        if sign := self.take("**"):
            self.cross(sign)
            if not 1 <= self.number() <= MOST_CROSSED:
                self.refuse(f"powers of terms go from 1 to {MOST_CROSSED}", sign)

    def atom(self, *, top: bool) -> None:
        """Rule: `atom = "0" | "1" | "(" sum ["|" group] ")" | named`."""
        if self.token.kind == "number":
            token = self.token
            if self.number() not in (0, 1):
                self.refuse("a term may be 0 or 1; use `offset(...)` for other numbers", token)
        elif self.take("("):
            self.sum()
            if self.token.kind == "op" and self.token.text == "|":
                self.group(top=top)
            self.need(")")
        else:
            self.named()

    def group(self, *, top: bool) -> None:
        """Rule: `group = column {":" column}`; only in a term of its own."""
        sign = self.need("|")
        if not top:
            self.refuse("groups such as `(1 | store)` are terms of their own", sign)
        while True:
            self.parsed.groups[self.column(self.name())] = None
            if not self.take(":"):
                return

    def named(self) -> None:
        """Rule: `named = column | function "(" expression {"," setting} ")"`."""
        token = self.name()
        if token.text in FUNCTIONS and self.take("("):
            self.arguments(token)
        else:
            self.parsed.names[self.column(token)] = None

    def arguments(self, function: Token) -> None:
        """What a function is of, and its settings, by name or in their order."""
        self.deeper()
        if function.text == "C":
            self.parsed.names[self.column(self.name())] = None
        else:
            self.expression()
        settings = FUNCTIONS[function.text]
        place = 0
        while self.take(","):
            token = self.token
            ahead = self.tokens[self.at + 1] if token.kind == "name" else token
            name = list(settings)[place] if place < len(settings) else None
            if token.kind == "name" and ahead.text == "=":
                name = token.text if token.text in settings else None
                self.at += 2
            if name is None:
                takes = f"settings {some(settings)}" if settings else "no settings"
                self.refuse(f"{function.text!r} takes {takes}", token)
            if self.number() > settings[name]:
                self.refuse(f"`{name}` of {function.text!r} is {settings[name]:g} at most", token)
            place += 1
        self.need(")")
        self.depth -= 1

    def expression(self) -> None:
        """Arithmetic of columns, inside a function."""
        self.deeper()
        self.take("+", "-")
        self.operand()
        while self.take("+", "-", "*", "/", "**"):
            self.take("+", "-")
            self.operand()
        self.depth -= 1

    def operand(self) -> None:
        """Rule: `operand = number | "(" expression ")" | named`."""
        if self.token.kind == "number":
            self.number()
        elif self.take("("):
            self.expression()
            self.need(")")
        else:
            self.named()

    def deeper(self) -> None:
        """Count a bracket that opens."""
        self.depth += 1
        if self.depth > DEEPEST:
            self.refuse("brackets are nested too deeply")
