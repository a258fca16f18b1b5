"""The word that was probably meant."""

from collections.abc import Iterable


def edit_distance(one: str, other: str) -> int:
    """Letters to add, drop, change or swap with a neighbour until the words are equal."""
    rows = [list(range(len(other) + 1))]
    for i, letter in enumerate(one, start=1):
        row = [i]
        for j, wanted in enumerate(other, start=1):
            cost = min(rows[-1][j] + 1, row[-1] + 1, rows[-1][j - 1] + (letter != wanted))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == wanted:
                cost = min(cost, rows[-2][j - 2] + 1)
            row.append(cost)
        rows.append(row)
    return rows[-1][-1]


def nearest(word: str, known: Iterable[str]) -> list[str]:
    """The known words nearest to `word`: at most one wrong letter in three, or else those that it is the start of."""
    distances = {candidate: edit_distance(word.lower(), candidate.lower()) for candidate in known}
    least = min(distances.values(), default=len(word))
    if least < len(word) and least <= max(1, len(word) // 3):
        return sorted(candidate for candidate, distance in distances.items() if distance == least)
    return sorted(candidate for candidate in distances if len(word) > 2 and candidate.startswith(word.lower()))


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """A hint with the nearest words, or None where nothing is near."""
    found = [f'"{candidate}"' for candidate in nearest(word, known)]
    return f"did you mean {' or '.join(found)}?" if found else None
