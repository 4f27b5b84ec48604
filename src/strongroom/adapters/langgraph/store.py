"""StrongroomStore: LangGraph's long-term store. One object for blocking and async code.

An item is a document. Its place (namespace and key) is a claim, so there is one at most, and every update writes a new
document in the place of the old one: documents are scanned in order of creation, so the newest update is the first that
a scan from the end meets. A tag for each depth of the namespace makes a prefix one tag.

A batch reads first and writes last: its reads see the state before its writes, which are one commit.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from langgraph.store.base import (
    BaseStore,
    GetOp,
    IndexConfig,
    InvalidNamespaceError,
    Item,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    ensure_embeddings,
    get_text_at_path,
    validate_op_namespace,
)
from msgspec import Struct

from strongroom.adapters.contexts import Closing, Opened, Where
from strongroom.adapters.hints import SET_UP, Instead, told_where
from strongroom.adapters.langgraph.filters import fits_name, is_match, packed_vector, ranked
from strongroom.bridge import can_search, run
from strongroom.codec import encode
from strongroom.errors import Conflict
from strongroom.retry import attempts
from strongroom.scope import Scope
from strongroom.services.sessions import layouts
from strongroom.services.sessions.layouts import digest
from strongroom.stemming import words
from strongroom.store import MOST_WORDS, Commit, Delete, Document, Expect, Find, Found, Key, Put, Scan, Write, new_id
from strongroom.values import iso, moment

ITEM = layouts.STORED
NAMESPACE = layouts.NAMESPACE
PLACE = "=place"
PAGE = 200
POOL = 500
MOST_PLACES = 10_000

Namespace = tuple[str, ...]
ItemKey = tuple[Namespace, str]
Embed = Callable[[Sequence[str]], Awaitable[list[list[float]]]]


class StrongroomStore(BaseStore, Closing):
    """Keep items for agents in a Strongroom store: `graph.compile(store=StrongroomStore("agent.db"))`.

    With `index=IndexConfig(...)` a query goes by meaning, without it by words.
    """

    __slots__ = ("_paths", "_places", "_seen", "embeddings", "index_config", "opened")

    if not TYPE_CHECKING:
        from_conn_string = Instead("`StrongroomStore(where)`: an address, or a context")
        setup = Instead(SET_UP)

    @told_where
    def __init__(self, where: Where, *, index: IndexConfig | None = None, **options: Any) -> None:
        self.opened = Opened(where, options)
        self.index_config = index
        self.embeddings = ensure_embeddings(index.get("embed")) if index else None
        self._paths = list((index or {}).get("fields") or ["$"])
        self._seen: set[Namespace] = set()
        self._places: dict[ItemKey, StoredItem] = {}

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        async def embed(texts: Sequence[str]) -> list[list[float]]:
            assert self.embeddings is not None
            return self.embeddings.embed_documents(list(texts))

        return run(self._items(self.opened.blocking, embed).batch(list(ops)))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        async def embed(texts: Sequence[str]) -> list[list[float]]:
            assert self.embeddings is not None
            return await self.embeddings.aembed_documents(list(texts))

        return await self._items(self.opened.awaitable, embed).batch(list(ops))

    def _items(self, scope: Scope, embed: Embed) -> Items:
        embedder = embed if self.embeddings is not None else None
        return Items(scope, self._paths, self._seen, self._places, embedder)


class StoredItem(Struct, frozen=True):
    """Which document is an item, and since when there is one. Every write expects it, so it may be remembered."""

    key: Key
    version: int
    created: str

    @classmethod
    def of(cls, document: Document) -> StoredItem:
        return cls(document.key, document.version, document.value.load()["created"])


class Items(Struct, frozen=True):
    """The items of a space. Written once, awaiting nothing but the port and the embedder."""

    scope: Scope
    paths: Sequence[str]
    seen: set[Namespace]
    places: dict[ItemKey, StoredItem]
    embed: Embed | None

    async def batch(self, ops: Sequence[Op]) -> list[Result]:
        for op in ops:
            require_tuples(op)
            validate_op_namespace(op)
            if isinstance(op, PutOp) and op.ttl is not None:
                raise NotImplementedError("items do not expire here; nothing changed")
        puts = {(op.namespace, op.key): op for op in ops if isinstance(op, PutOp)}  # the last one counts
        results: list[Result] = [await self._answer(op) for op in ops]
        if puts:
            await self._write(puts)
        return results

    async def _answer(self, op: Op) -> Result:
        if isinstance(op, GetOp):
            found = (await self._at([(op.namespace, op.key)]))[0]
            return None if found is None else item(found, Item)
        if isinstance(op, SearchOp):
            return await self._search(op)
        return await self._namespaces(op) if isinstance(op, ListNamespacesOp) else None

    async def _at(self, places: Sequence[ItemKey]) -> list[Document | None]:
        """Return the items at places."""
        claims = [{PLACE: digest(*namespace, "", key)} for namespace, key in places]
        scans = [Scan(self.scope.space, ITEM, claim, limit=1) for claim in claims]
        return [page.documents[0] if page.documents else None for page in await self.scope.get_all(scans)]

    # ---- searching --------------------------------------------------------------------------------------------------

    async def _search(self, op: SearchOp) -> list[SearchItem]:
        if op.query and op.query.strip():
            scored = await (self._by_meaning(op, self.embed) if self.embed else self._by_words(op))
        else:
            scored = [(one, None) for one in await self._newest(op, op.offset + op.limit)]
        return [item(one, SearchItem, score=score) for one, score in scored[op.offset : op.offset + op.limit]]

    async def _newest(self, op: SearchOp, most: int | None) -> list[Document]:
        """Return what lies below a prefix and fits, the newest update first."""
        found: list[Document] = []
        limit = PAGE if most is None or op.filter else max(1, min(PAGE, most))  # no more than are wanted
        scan = Scan(self.scope.space, ITEM, below(op.namespace_prefix), limit=limit, reverse=True)
        first: str | None = None  # behind the first page
        async for page in self.scope.walk(scan):
            found += [one for one in page.documents if fits(one, op)]
            if page.next is not None and (most is None or len(found) < most):
                first = first or page.next
                continue
            if first is not None:
                found = await self._caught_up(op, found, first)
            if most is None or len(found) >= most:
                break
        return found

    async def _caught_up(self, op: SearchOp, found: list[Document], first: str) -> list[Document]:
        """Join what a walk found with what came since its first page.

        An update moves an item to the newest end, where a walk away from it does not come again. A walk towards the end
        meets it there, however often it moves.
        """
        newer: list[Document] = []
        scan = Scan(self.scope.space, ITEM, below(op.namespace_prefix), after=first, limit=PAGE)
        async for page in self.scope.pages(scan):
            newer += page
        return [one for one in by_place([*reversed(newer), *found]).values() if fits(one, op)]

    async def _by_meaning(self, op: SearchOp, embed: Embed) -> list[tuple[Document, float | None]]:
        """Score by the nearest vector of each item; those without one come last."""
        [query] = await embed([str(op.query)])
        found = await self._newest(op, None)
        return ranked(query, found, [one.value.load().get("vectors") or [] for one in found])

    async def _by_words(self, op: SearchOp) -> list[tuple[Document, float | None]]:
        """Those that hold a word of the query come first, as the store's index finds them; then the newest."""
        wanted = tuple(dict.fromkeys(words(str(op.query))))[:MOST_WORDS]
        hits: list[Document] = []
        if wanted and can_search(self.scope.store):
            find = Find(self.scope.space, ITEM, wanted, tags=below(op.namespace_prefix), limit=POOL)
            found: Found = await self.scope.store.search(find)  # type: ignore[attr-defined]
            hits = [match.document for match in found.matches if match.document is not None]
        first = by_place([one for one in hits if fits(one, op)])
        rest = by_place(await self._newest(op, op.offset + op.limit + len(first)))
        now = {place: rest.get(place, one) for place, one in first.items()}  # what was read last is the newest
        return [(one, None) for one in (now | rest).values()]

    async def _namespaces(self, op: ListNamespacesOp) -> list[Namespace]:
        names: list[Namespace] = []
        async for page in self.scope.pages(Scan(self.scope.space, NAMESPACE, limit=PAGE)):
            names += [tuple(one.value.load()) for one in page]
        names = sorted(name for name in names if all(fits_name(name, one) for one in op.match_conditions or ()))
        # A namespace is there as long as an item is in it. They are looked at in the order in which they are listed,
        # until there are enough.
        wanted, alive = op.offset + op.limit, dict[Namespace, None]()
        async for some in self.scope.parts(names, PAGE, self._alive):
            alive |= dict.fromkeys(name[: op.max_depth] for name in some)
            if len(alive) >= wanted:
                break
        return [*alive][op.offset : wanted]

    async def _alive(self, names: Sequence[Namespace]) -> list[Namespace]:
        """Return those namespaces that hold an item."""
        scans = [Scan(self.scope.space, ITEM, {"in": digest(*name)}, limit=1) for name in names]
        return [name for name, page in zip(names, await self.scope.get_all(scans), strict=True) if page.documents]

    # ---- writing ----------------------------------------------------------------------------------------------------

    async def _write(self, puts: Mapping[ItemKey, PutOp]) -> None:
        texts = {place: self._texts(op) for place, op in puts.items()}
        vectors = await self._vectors(texts)
        for _ in attempts("the items of a batch"):
            before = {place: known for place in puts if (known := self.places.get(place)) is not None}
            unknown = [place for place in puts if place not in before]
            found = zip(unknown, await self._at(unknown), strict=True)
            before |= {place: StoredItem.of(document) for place, document in found if document is not None}
            after, writes = dict[ItemKey, StoredItem](), list[Write]()
            for place, op in puts.items():
                made, new = self._writes(op, before.get(place), texts[place], vectors.get(place))
                writes += made
                if new is not None:
                    after[place] = new
            if not writes:
                return
            expects = tuple(Expect(one.key, one.version) for one in before.values())
            try:
                await self.scope.store.commit(Commit(new_id(), expects, tuple(writes)))
            except Conflict:
                for place in puts:
                    self.places.pop(place, None)
                continue  # somebody else has put one of them: it is theirs that is replaced
            if len(self.seen) > MOST_PLACES:
                self.seen.clear()
            self.seen.update(op.namespace for op in puts.values() if op.value is not None)
            for place in puts:
                self.places.pop(place, None)
            if len(self.places) > MOST_PLACES:
                self.places.clear()
            self.places.update(after)
            return

    def _writes(
        self, op: PutOp, before: StoredItem | None, texts: Sequence[str], vectors: Any
    ) -> tuple[list[Write], StoredItem | None]:
        """Return what puts an item in its place, and which document it then is."""
        writes: list[Write] = [] if before is None else [Delete(before.key)]
        if op.value is None:
            return writes, None
        now = iso(moment(self.scope.clock()))
        place = StoredItem(self.scope.key(ITEM, new_id()), 1, now if before is None else before.created)
        value = {
            "namespace": list(op.namespace),
            "key": op.key,
            "value": op.value,
            "created": place.created,
            "updated": now,
        }
        depths = {str(depth): digest(*op.namespace[:depth]) for depth in range(1, len(op.namespace) + 1)}
        tags = depths | {"in": digest(*op.namespace), PLACE: digest(*op.namespace, "", op.key)}
        text = "\n".join(texts).replace("\0", "") or None
        body = encode(value if vectors is None else value | {"vectors": vectors})
        writes.append(Put(place.key, body, tags, text))
        if op.namespace not in self.seen:
            writes.append(Put(self.scope.key(NAMESPACE, digest(*op.namespace)), encode(list(op.namespace))))
        return writes, place

    def _texts(self, op: PutOp) -> list[str]:
        """Return what an item is found by."""
        if op.value is None or op.index is False:
            return []
        paths = self.paths if op.index is None else op.index
        return [text for path in paths for text in get_text_at_path(op.value, path)]

    async def _vectors(self, texts: Mapping[ItemKey, Sequence[str]]) -> dict[ItemKey, list[str]]:
        """Embed all texts of a batch at once."""
        every = [text for several in texts.values() for text in several]
        if self.embed is None or not every:
            return {}
        made = iter(await self.embed(every))
        return {place: [packed_vector(next(made)) for _ in several] for place, several in texts.items()}


def require_tuples(op: Op) -> None:
    """Refuse a text for a namespace: it would be one of its letters."""
    if isinstance(op, ListNamespacesOp):
        given: list[object] = [condition.path for condition in op.match_conditions or ()]
    else:
        given = [op.namespace_prefix if isinstance(op, SearchOp) else op.namespace]
    for one in given:
        if isinstance(one, str):
            raise InvalidNamespaceError(f"a namespace is a tuple such as ({one!r:.80},), not {one!r:.80}")


def below(prefix: Namespace) -> dict[str, str]:
    """Return the tag of what lies below a prefix."""
    return {str(len(prefix)): digest(*prefix)} if prefix else {}


def fits(document: Document, op: SearchOp) -> bool:
    return not op.filter or is_match(document.value.load()["value"], op.filter)


def by_place(documents: Iterable[Document]) -> dict[str, Document]:
    """Return documents by the place of their item; of several the first."""
    places: dict[str, Document] = {}
    for one in documents:
        places.setdefault(one.tags[PLACE], one)
    return places


def item(document: Document, cls: Any, **more: Any) -> Any:
    value = document.value.load()
    return cls(
        namespace=tuple(value["namespace"]),
        key=value["key"],
        value=value["value"],
        created_at=datetime.fromisoformat(value["created"]),
        updated_at=datetime.fromisoformat(value["updated"]),
        **more,
    )
