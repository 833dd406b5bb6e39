"""Claims in few lines: those that differ only in size, in what follows a colon, share one."""

from collections.abc import Iterable, Iterator, Sequence

from benchmarks.tables.number_format import printed, with_unit
from benchmarks.tables.outcome import Claim

Kind = tuple[str, str, str]


def _kind(claim: Claim) -> Kind:
    """Return what claims of a kind have in common, as the first cells of their line."""
    return claim.what.partition(": ")[0], claim.published or "–", claim.target


def _line(kind: Kind, claims: Sequence[Claim]) -> list[str]:
    """Return the cells: the median and the rounds of one claim, or the least and the greatest median of several."""
    if len(claims) == 1:
        return [*kind, *claims[0].cells[len(kind) :]]
    values = [claim.value for claim in claims]
    ours = " to ".join(dict.fromkeys(map(printed, (min(values), max(values)))))
    reached = sum(claim.reached for claim in claims)
    verdict = f"{reached} of {len(claims)}"
    return [*kind, with_unit(ours, claims[0].unit), verdict if reached == len(claims) else f"**{verdict}**"]


def lines(claims: Iterable[Claim]) -> Iterator[list[str]]:
    """Return a line for each kind, in the order in which they begin."""
    kinds: dict[Kind, list[Claim]] = {}
    for claim in claims:
        kinds.setdefault(_kind(claim), []).append(claim)
    for kind, found in kinds.items():
        yield _line(kind, found)
