"""What `%websearch goggles` says: the goggles that are known by a name, or one of them in full."""

from __future__ import annotations

from ipy_websearch.providers.goggle_catalogue import DISCOVER, Goggle, catalogue, named


def goggle_lines(name: str = "") -> list[str]:
    """Return the lines; without a name those of the whole catalogue.

    Raises:
        ConfigError: there is no goggle of that name.
    """
    return _one(named(name)) if name.strip() else _all()


def _all() -> list[str]:
    goggles = list(catalogue().values())
    width = max(len(goggle.name) for goggle in goggles)
    lines = ["Goggles rank the results of Brave by source: %search --provider brave --goggle NAME query", ""]
    for goggle in goggles:
        lines.append(f"  {goggle.name.ljust(width)}  {goggle.about}")
        lines.append(f"  {' ' * width}  {_where(goggle)}")
    lines += ["", "%websearch goggles NAME shows one in full. --goggle also takes an address, or rules such as"]
    return [*lines, f"'$boost=3,site=docs.python.org'. More goggles: {DISCOVER}"]


def _where(goggle: Goggle) -> str:
    if goggle.rules:
        return f"inline, {len(goggle.rules.splitlines())} rules of ours"
    return goggle.url if goggle.known else f"{goggle.url} (whether Brave has it is not known)"


def _one(goggle: Goggle) -> list[str]:
    return [f"{goggle.name}: {goggle.title}", goggle.about, "", goggle.value]
