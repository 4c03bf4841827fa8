from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remote import schema, wire

DOCUMENTS = [
    value
    for value in vars(schema).values()
    if isinstance(value, type) and dataclasses.is_dataclass(value) and value.__module__.startswith(schema.__name__)
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
JOB = schema.Job(name="j", engine="command", python="/p", workdir="/w", output="/o", layers=(1, 2), env={"A": "b"})


def test_a_document_survives_the_wire() -> None:
    request = schema.LaunchRequest(job=JOB, bundle="b", fingerprint="f", secrets={"HF_TOKEN": "x"})
    assert wire.loads(schema.LaunchRequest, wire.dumps(request)) == request


def test_schema_comes_first() -> None:
    assert wire.dumps(JOB).startswith('{"schema":1,')


@given(document=st.sampled_from(DOCUMENTS), data=JSON)
def test_any_json_gives_a_document_or_a_wire_error(document: type[Any], data: Any) -> None:
    try:
        wire.decode(document, data)
    except wire.WireError as error:
        assert str(error).startswith("document")


@given(document=st.sampled_from(DOCUMENTS), values=st.data())
def test_right_keys_with_any_values_give_a_document_or_a_wire_error(document: type[Any], values: st.DataObject) -> None:
    data = {field.name: values.draw(JSON) for field in dataclasses.fields(document)}
    try:
        decoded = wire.decode(document, {**data, "schema": 1})
    except wire.WireError:
        return
    assert wire.decode(document, wire.encode(decoded)) == decoded


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layers": [1, "x"]}, "job.layers[1]: expected a whole number, found text"),
        ({"layers": [True]}, "job.layers[0]: expected a whole number, found true or false"),
        ({"env": {"A": 1}}, "job.env.A: expected text, found a whole number"),
        ({"retry": {"transient": "3"}}, "job.retry.transient: expected a whole number, found text"),
        ({"schema": 2}, "job.schema: this side speaks version 1, the document is version 2"),
        ({"schema": True}, "job.schema: expected a whole number, found true or false"),
        ({"name": None}, "job.name: expected text, found nothing"),
    ],
)
def test_errors_name_the_path(change: dict[str, Any], message: str) -> None:
    data = json.loads(wire.dumps(JOB))
    with pytest.raises(wire.WireError) as caught:
        wire.decode(schema.Job, {**data, **change}, "job")
    assert str(caught.value) == message


def test_a_missing_value_is_named() -> None:
    with pytest.raises(wire.WireError, match=r"job\.python: missing"):
        wire.decode(schema.Job, {"schema": 1, "name": "j", "engine": "e"}, "job")


def test_unknown_keys_are_ignored() -> None:
    assert wire.decode(schema.Job, {**wire.encode(JOB), "colour": "blue"}) == JOB


@pytest.mark.parametrize("text", [b"", b"{", b"\xff\xfe", "[" * 100_000])
def test_what_is_no_json_is_said(text: str | bytes) -> None:
    with pytest.raises(wire.WireError):
        wire.loads(schema.Job, text)
