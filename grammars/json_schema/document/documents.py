"""The schema documents of a request: locations in them, and the targets of references.

The ``referencing`` library says which values are subschemas, and which identifiers and anchors they have.  Documents
other than the caller's schema are passed by the caller.  Nothing is ever fetched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from referencing.jsonschema import specification_with

from grammars.json_schema.document.dialects import Dialect, dialect_of
from grammars.json_schema.document.places import Place
from grammars.limits.schema_limits import DEFAULT_LIMITS, Limits, Survey, survey
from grammars.values.json_pointer import MISSING, Parents, parents_in, pointer_to, step_into, steps_to, unescaped
from special_tokens.errors import SchemaError, shown

__all__ = ["Documents"]

_IDENTIFIERS = {"$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$dynamicRef", "$recursiveRef"}
_DYNAMIC = {"$dynamicRef", "$recursiveRef", "$dynamicAnchor", "$recursiveAnchor"}


@dataclass(frozen=True, slots=True)
class _Home:
    """The base URI and the dialect at a subschema."""

    base: str
    dialect: Dialect


class Documents:
    """The caller's schema with the documents it may refer to."""

    def __init__(
        self, schema: Any, documents: Mapping[str, Any] | None = None, *, limits: Limits = DEFAULT_LIMITS
    ) -> None:
        self.limits = limits
        self.survey: Survey = survey(schema, limits)
        self.places: list[Place | None] = [None]  # literals count from 1
        self._place_of: dict[tuple[int, tuple[str, ...]], Place] = {}
        self._keep: list[Any] = []  # generated schemas, kept alive so that no id() is used twice
        self._others = {_bare(uri): document for uri, document in (documents or {}).items()}
        self._dialect = dialect_of(schema)
        self._resources: dict[str, Any] = {}  # base URI -> schema of the resource
        self._anchors: dict[tuple[str, str], tuple[Any, bool]] = {}
        self._homes: dict[int, _Home] = {}
        self._roots: dict[int, Place] = {}  # id of a document -> its place
        self._ways: dict[int, Parents] = {}  # id of a document -> how its values are reached; filled on demand
        self._plain = not (self.survey.keys & _IDENTIFIERS)
        self._dynamic = bool(self.survey.keys & _DYNAMIC)
        base = "" if self._plain else self._index(schema, "", self._dialect)
        self._base = base
        self.root = self._add(schema, None, (), self._dialect, base, self._entered((), base))
        self._roots[id(schema)] = self.root

    # -- places

    def __getitem__(self, number: int) -> Place:
        place = self.places[abs(number)]
        assert place is not None
        return place

    def at(self, parent: Place, schema: Any, *steps: str | int) -> Place:
        """Return the place of ``schema``, found ``steps`` below ``parent``."""
        place = self._place_of.get((id(schema), parent.scope))
        if place is not None and isinstance(schema, dict):
            return place
        if self._plain or not isinstance(schema, dict):
            return self._add(schema, parent, steps, parent.dialect, parent.base, parent.scope)
        home = self._homes.get(id(schema))
        if home is None:
            return self._add(schema, parent, steps, parent.dialect, parent.base, parent.scope)
        scope = self._entered(parent.scope, home.base)
        return self._add(schema, parent, steps, home.dialect, home.base, scope)

    def made(self, owner: Place, schema: Any, *steps: str | int) -> Place:
        """Return the place of a schema that we generated on behalf of ``owner``, whose pointer it shares."""
        self._keep.append(schema)
        return self._add(schema, owner, steps, owner.dialect, owner.base, owner.scope)

    def _add(
        self,
        schema: Any,
        parent: Place | None,
        steps: tuple[str | int, ...],
        dialect: Dialect,
        base: str,
        scope: tuple[str, ...],
    ) -> Place:
        added = self._place_of.get((id(schema), scope)) if isinstance(schema, dict) else None
        if added is not None:
            return added
        place = Place(len(self.places), schema, parent, steps, dialect, base, scope)
        self.places.append(place)
        if isinstance(schema, dict):
            self._place_of[id(schema), scope] = place
        return place

    def _entered(self, scope: tuple[str, ...], base: str) -> tuple[str, ...]:
        """The dynamic scope after entering a resource.

        Only resources that bring a dynamic anchor of a new name are kept.  Any other could never be chosen, as the
        outermost one wins, and would multiply the places without effect.
        """
        if not self._dynamic or base in scope:
            return scope
        brought = self._dynamic_names(base)
        return scope if brought <= {n for outer in scope for n in self._dynamic_names(outer)} else (*scope, base)

    def _dynamic_names(self, base: str) -> set[str]:
        names = {name for (uri, name), (_, dynamic) in self._anchors.items() if uri == base and dynamic}
        resource = self._resources.get(base)
        if isinstance(resource, dict) and resource.get("$recursiveAnchor") is True:
            names.add("")
        return names

    # -- references

    def target(self, place: Place, ref: Any, keyword: str = "$ref") -> Place:
        """Return the place that a reference at ``place`` leads to; raises `SchemaError` if there is none."""
        if not isinstance(ref, str):
            raise SchemaError(
                f"{keyword!r} is {shown(ref)}", pointer=place.pointer, keyword=keyword, expected="a URI reference"
            )
        if keyword == "$recursiveRef":
            return self._recursive(place)
        if self._plain and ref.startswith("#") and (len(ref) == 1 or ref[1] == "/"):
            root = self._top(place)
            return self._walk(place, root.schema, ref[1:], root.base, keyword)
        uri, fragment = (place.base, ref[1:])
        if not ref.startswith("#"):
            uri, fragment = urldefrag(_joined(place.base, ref, lambda: place.pointer, keyword))
        resource = self._resource(place, uri, keyword)
        if fragment == "" or fragment.startswith("/"):
            return self._walk(place, resource, fragment, uri, keyword)
        return self._anchor(place, uri, unquote(fragment), keyword)

    def _top(self, place: Place) -> Place:
        while place.parent is not None:
            place = place.parent
        return place

    def _walk(self, place: Place, resource: Any, fragment: str, base: str, keyword: str) -> Place:
        value, steps = resource, []
        home = self._homes.get(id(resource)) or _Home(base, place.dialect if self._plain else self._dialect)
        for raw in fragment.split("/")[1:]:
            step = unescaped(unquote(raw))
            value = step_into(value, step)
            if value is MISSING:
                raise SchemaError(
                    f"the reference {shown(f'#{fragment}')} leads nowhere: there is no {shown(step)}",
                    pointer=place.pointer,
                    keyword=keyword,
                    expected="the pointer of a schema",
                )
            steps.append(step)
            home = self._homes.get(id(value), home)
        if not isinstance(value, dict | bool):
            raise SchemaError(
                f"the reference {shown(f'#{fragment}')} leads to something that is not a schema",
                pointer=place.pointer,
                keyword=keyword,
                expected="an object, true or false",
            )
        scope = self._entered(place.scope, home.base)
        start, before = self._start(resource, base)
        return self._add(value, start, (*before, *steps), home.dialect, home.base, scope)

    def _start(self, resource: Any, base: str) -> tuple[Place, tuple[str | int, ...]]:
        """The place of the document that contains a resource, and the steps from there to it."""
        if id(resource) in self._roots:
            return self._roots[id(resource)], ()
        for place in self._roots.values():
            ways = self._ways.get(id(place.schema))
            if ways is None:
                ways = self._ways[id(place.schema)] = parents_in(place.schema)
            steps = steps_to(ways, resource)
            if steps is not None:
                return place, steps
        root = Place(0, resource, None, (), self._dialect, base, (), f"{base}#")
        self._roots[id(resource)] = root
        return root, ()

    def _resource(self, place: Place, uri: str, keyword: str) -> Any:
        wanted = _bare(uri)
        if wanted not in self._resources:
            if wanted == self._base or wanted == "":
                return self.root.schema
            document = self._others[wanted] if wanted in self._others else _metaschema(wanted)
            if document is _ABSENT:
                raise SchemaError(
                    f"the document {uri!r} was not given",
                    pointer=place.pointer,
                    keyword=keyword,
                    expected="a reference into the schema or into one of its documents",
                    hint="pass it in `documents`; nothing is ever fetched",
                )
            if not isinstance(document, dict | bool):
                raise SchemaError(
                    f"the document {uri!r} is {shown(document)}",
                    pointer=place.pointer,
                    keyword=keyword,
                    expected="a schema: an object, true or false",
                )
            resources = survey(document, self.limits)
            self._dynamic = self._dynamic or bool(resources.keys & _DYNAMIC)
            self._index(document, wanted, dialect_of(document, self._dialect))
            self._resources.setdefault(wanted, document)
            self._roots[id(document)] = Place(0, document, None, (), self._dialect, wanted, (), f"{wanted}#")
        return self._resources[wanted]

    def _anchor(self, place: Place, uri: str, name: str, keyword: str) -> Place:
        base = _bare(uri)
        if (base, name) not in self._anchors:
            raise SchemaError(f"unknown anchor {name!r}", pointer=place.pointer, keyword=keyword, expected="an $anchor")
        schema, dynamic = self._anchors[base, name]
        if dynamic and keyword == "$dynamicRef":
            for outer in place.scope:
                anchored = self._anchors.get((outer, name))
                if anchored is not None and anchored[1]:
                    schema, base = anchored[0], outer
                    break
        return self._enter(place, schema, base)

    def _recursive(self, place: Place) -> Place:
        schema, base = self._resources.get(place.base, self.root.schema), place.base
        if isinstance(schema, dict) and schema.get("$recursiveAnchor") is True:
            for outer in place.scope:
                resource = self._resources.get(outer, self.root.schema if outer == self._base else None)
                if isinstance(resource, dict) and resource.get("$recursiveAnchor") is True:
                    schema, base = resource, outer
                    break
        return self._enter(place, schema, base)

    def _enter(self, place: Place, schema: Any, base: str) -> Place:
        home = self._homes.get(id(schema), _Home(base, place.dialect))
        start, steps = self._start(schema, base)
        return self._add(schema, start, steps, home.dialect, home.base, self._entered(place.scope, home.base))

    # -- the index of identifiers and anchors

    def _index(self, document: Any, base: str, dialect: Dialect) -> str:
        """Index every resource and anchor of a document; return the base URI of its root."""
        root_base: str | None = None
        stack: list[tuple[Any, str, Dialect]] = [(document, base, dialect)]
        while stack:
            schema, base, dialect = stack.pop()
            if not isinstance(schema, dict):
                continue
            declared = dialect_of(schema, dialect)  # honoured only at the root of a resource
            named = schema.get(declared.id_keyword)
            alone = declared.ref_ignores_siblings and "$ref" in schema
            is_resource = isinstance(named, str) and not alone and not named.startswith("#")
            # Validators honour a $schema next to "$id" or "id", but identify nothing by the one of another dialect.
            other = schema.get("$id", schema.get("id")) if declared != dialect and not alone else None
            if is_resource or root_base is None or (isinstance(other, str) and not other.startswith("#")):
                dialect = declared
            alone = dialect.ref_ignores_siblings and "$ref" in schema
            specification = specification_with(dialect.uri)
            if is_resource:
                pointer = partial(pointer_to, document, schema)
                base = _bare(_joined(base, str(named), pointer, declared.id_keyword))
                self._resources.setdefault(base, schema)
            if root_base is None:
                root_base = base
                self._resources.setdefault(base, schema)
            self._homes[id(schema)] = _Home(base, dialect)
            if isinstance(named, str) and named.startswith("#") and not alone:
                self._anchors.setdefault((base, named[1:]), (schema, False))
            for keyword in ("$anchor", "$dynamicAnchor"):
                if isinstance(schema.get(keyword), str):
                    self._anchors[base, schema[keyword]] = (schema, keyword == "$dynamicAnchor")
            try:
                below = list(specification.subresources_of(schema))
            except (AttributeError, TypeError, KeyError):  # a keyword of the wrong kind; reported where it is read
                below = []
            stack.extend((sub, base, dialect) for sub in reversed(below))
        return root_base or ""


_ABSENT = object()


def _metaschema(uri: str) -> Any:
    """The published meta-schema or vocabulary with that URI, `_ABSENT` for any other."""
    if "json-schema.org/" not in uri:
        return _ABSENT
    from jsonschema_specifications import REGISTRY  # reads its files, so only for schemas that refer to them

    try:
        return REGISTRY[uri].contents
    except LookupError:
        return _ABSENT


def _bare(uri: str) -> str:
    return uri[:-1] if uri.endswith("#") else uri


def _joined(base: str, ref: str, pointer: Callable[[], str], keyword: str) -> str:
    """Resolve ``ref`` against ``base``; raises `SchemaError` if it is not a URI."""
    try:
        return urljoin(base, ref)
    except ValueError as error:
        raise SchemaError(
            f"{shown(ref)} at {shown(base)} is not a URI: {error}",
            pointer=pointer(),
            keyword=keyword,
            expected="a URI reference",
        ) from None
