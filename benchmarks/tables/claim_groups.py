"""Claims in few lines. Claims share a line if they differ only in the part after the colon, such as a size."""

from collections.abc import Iterable, Iterator, Sequence

from benchmarks.tables.number_format import printed, with_unit
from benchmarks.tables.outcome import Claim

Kind = tuple[str, str, str]


def _kind(claim: Claim) -> Kind:
    """Return the first cells of a claim's line; they are the same for all claims of a kind."""
    return claim.what.partition(": ")[0], claim.published or "–", claim.target


def _line(kind: Kind, claims: Sequence[Claim]) -> list[str]:
    """Return the cells of a line: median and rounds of one claim, or the least and the greatest median of several."""
    if len(claims) == 1:
        return [*kind, *claims[0].cells[len(kind) :]]
    values = [claim.value for claim in claims]
    ours = " to ".join(dict.fromkeys(map(printed, (min(values), max(values)))))
    reached = sum(claim.reached for claim in claims)
    verdict = f"{reached} of {len(claims)}"
    return [*kind, with_unit(ours, claims[0].unit), verdict if reached == len(claims) else f"**{verdict}**"]


def lines(claims: Iterable[Claim]) -> Iterator[list[str]]:
    """Yield a line for each kind, in the order of the kinds' first claims."""
    kinds: dict[Kind, list[Claim]] = {}
    for claim in claims:
        kinds.setdefault(_kind(claim), []).append(claim)
    for kind, found in kinds.items():
        yield _line(kind, found)
