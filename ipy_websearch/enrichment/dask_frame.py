"""A Dask DataFrame in, a Dask DataFrame out: the same partitions, divisions and index, with the new columns filled.

Only the columns that the questions name travel to the kernel, where equal rows of all partitions are asked once. The answers
are part of the result, partition by partition; the frame's own columns stay lazy. A partition that has other rows when it is
computed than when it was asked about is an error, never a mix-up.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from ipy_websearch.enrichment.columns import NOTED, inputs_of
from ipy_websearch.enrichment.frames import FrameWork, joined, wanted_columns
from ipy_websearch.enrichment.lookup import COLUMNS, query_fields
from ipy_websearch.errors import EnrichmentError
from ipy_websearch.options import EnrichOptions

if TYPE_CHECKING:
    import pandas as pd

    from ipy_websearch.enrichment.lookup import Lookup
    from ipy_websearch.enrichment.run import Enrichment


def start_on_dask(start: Callable[[EnrichOptions], Enrichment], options: EnrichOptions) -> Any:
    """Return an enrichment of a Dask frame; `start` makes one of a pandas frame.

    Raises:
        ConfigError: the columns are faulty, or the cluster cannot be used.
    """
    from ipy_websearch.enrichment.dask import connect

    frame, cluster = options.frame, options.cluster
    names = [str(name) for name in frame.columns]
    new, fields = wanted_columns(options, names, frame._meta.attrs.get(NOTED))
    default = _default_client()
    if cluster is None:
        cluster = default
        parts, rows = _computed(frame, fields, default)
    else:
        client, is_own = connect(cluster)
        try:
            parts, rows = _computed(frame, fields, client)
        finally:
            if is_own:
                client.close()
    work = start(replace(options, frame=rows, cluster=None if options.mode == "batch" else cluster))
    # Without a default client, what computes the result later need not be the cluster that would hold the answers.
    held_by = default if cluster is default else None
    return FrameWork(work, Partitions(frame, parts, new, fields, held_by))


def look_up_on_dask(start: Callable[[pd.DataFrame], Lookup], frame: Any, query: str) -> Any:
    """Return the searches for a Dask frame, made by this process; `start` makes those of a pandas frame.

    Raises:
        ConfigError: the query names no column or one that is not there.
    """
    fields, client = query_fields(query, [str(name) for name in frame.columns], frame._meta.attrs.get(NOTED)), _default_client()
    parts, rows = _computed(frame, fields, client)
    return FrameWork(start(rows), Partitions(frame, parts, COLUMNS, fields, client))


def is_dask(frame: Any) -> bool:
    """Return whether something is a Dask DataFrame; Dask is not imported for it."""
    return type(frame).__module__.startswith("dask.")


class Partitions:
    """Puts rows that were worked on into the partitions of a Dask DataFrame; `client` holds the answers (None: the graph)."""

    def __init__(
        self, frame: Any, parts: Sequence[pd.DataFrame], added: Sequence[str], fields: Sequence[str], client: Any
    ) -> None:
        self._frame, self._client = frame, client
        self._added, self._fields = list(added), list(fields)
        self._sizes = [len(part) for part in parts]
        self._digests = [_digest(part, fields) for part in parts]

    def __call__(self, filled: pd.DataFrame) -> Any:
        """Return the Dask DataFrame as far as it is filled."""
        from dask import config, delayed
        from dask.dataframe import from_delayed

        added = filled[self._added]
        ends = list(accumulate(self._sizes, initial=0))
        parts = [added.iloc[a:b].reset_index(drop=True) for a, b in zip(ends, ends[1:], strict=False)]
        held = self._held([delayed(part) for part in parts])
        pieces = [
            delayed(put_together)(own, new, self._fields, digest)
            for own, new, digest in zip(self._frame.to_delayed(), held, self._digests, strict=True)
        ]
        meta = put_together(self._frame._meta, added.iloc[:0], (), "")
        with config.set({"dataframe.convert-string": False}):  # it makes texts of lists
            return from_delayed(pieces, meta=meta, divisions=self._frame.divisions, verify_meta=False)

    def _held(self, parts: list[Any]) -> list[Any]:
        """Return the answers as values that the cluster holds, so that they are sent there once."""
        if self._client is None:
            return parts
        from dask import config

        with config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
            kept: list[Any] = self._client.persist(parts)
        return kept


def put_together(own: pd.DataFrame, added: pd.DataFrame, fields: Sequence[str], digest: str) -> pd.DataFrame:
    """Return a partition with its new columns (`digest` "": whatever its rows are).

    Raises:
        EnrichmentError: these are not the rows that were asked about.
    """
    if digest and _digest(own, fields) != digest:
        raise EnrichmentError("a partition has other rows now than when it was enriched; persist the Dask DataFrame before")
    return joined(own, added.set_axis(own.index))


def _computed(frame: Any, fields: Sequence[str], client: Any) -> tuple[list[pd.DataFrame], pd.DataFrame]:
    """Return the partitions of a Dask frame with these columns, and their rows together."""
    import dask
    import pandas as pd

    delayed = frame[[name for name in frame.columns if str(name) in fields]].to_delayed()
    found: list[pd.DataFrame] = client.gather(client.compute(delayed)) if client is not None else list(dask.compute(*delayed))
    return found, pd.concat(found, ignore_index=True)


def _default_client() -> Any:
    """Return the client that Dask uses by itself, None when it computes in this process."""
    try:
        from distributed import default_client
    except ImportError:
        return None
    try:
        return default_client()
    except ValueError:
        return None


def _digest(part: pd.DataFrame, fields: Sequence[str]) -> str:
    return hashlib.sha256(repr(inputs_of(part, fields)).encode("utf-8", "replace")).hexdigest()
