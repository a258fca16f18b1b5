"""A document as Markdown. Pictures are named, not embedded: they lie beside it in `figures/`."""

from testbed.report.content import Block, Cell, Document, Items, Picture, Table, Text


def render(document: Document) -> str:
    """The same content as the HTML, as text."""
    parts = [f"# {document.title}", document.subtitle, f"**{document.verdict}**"]
    for section in document.sections:
        parts.append(f"## {section.title}")
        parts += [_block(block) for block in section.blocks]
    return "\n\n".join(parts) + "\n"


def _block(block: Block) -> str:
    if isinstance(block, Text):
        return f"> **{block.text}**" if block.tone == "warning" else block.text
    if isinstance(block, Items):
        return "\n".join(f"- {line}" for line in block.lines)
    if isinstance(block, Picture):
        return f"![{block.alt}](figures/{block.name}.svg)\n\n*{block.caption}*"
    if isinstance(block, Table):
        return _table(block)
    fence = "`" * (3 + block.text.count("```"))
    return f"**{block.title}**\n\n{fence}\n{block.text.rstrip()}\n{fence}"


def _table(table: Table) -> str:
    align = "---:" if table.numeric else "---"
    lines = [
        f"**{table.caption}**", "", _line(table.head), _line(("---", *(align for _ in table.head[1:]))),
        *(_line(tuple(_cell(cell) for cell in cells)) for cells in table.rows),
    ]
    return "\n".join(lines)


def _line(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(cell: Cell) -> str:
    below = _plain(cell.below)
    if cell.text == "no value" and below:
        return f"no value: {below}"
    return f"{_plain(cell.text)} ({below})" if below else _plain(cell.text)


def _plain(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", "; ")
