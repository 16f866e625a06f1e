"""The records themselves: what they may hold, and how large they get."""

import dataclasses
import json
import types
import typing

import pytest

from pellucid.introspect.schema import ViewRecord
from tests.introspect import sample_records
from tests.introspect.program_builder import schema

RECORDS = [
    value
    for value in vars(schema).values()
    if isinstance(value, type) and dataclasses.is_dataclass(value)
]
LARGE = {"equations_10k", "equations_10k_unscoped", "equations_100k"}


def is_plain(annotation: object) -> bool:
    """Is it a type that JSON can hold?"""
    if annotation in {str, int, float, bool, types.NoneType} or annotation in RECORDS:
        return True
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in {types.UnionType, typing.Union, list}:
        return all(map(is_plain, arguments))
    if origin is dict:
        return arguments[0] is str and is_plain(arguments[1])
    return origin is typing.Literal


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_a_record_holds_plain_data_only(record):
    for name, annotation in typing.get_type_hints(record).items():
        assert is_plain(annotation), f"{record.__name__}.{name}: {annotation}"
    assert record.__doc__


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_a_record_that_stands_alone_has_a_kind_and_a_version(record):
    fields = {field.name: field.default for field in dataclasses.fields(record)}
    if "kind" in fields:
        assert fields["schema_version"] == schema.SCHEMA_VERSION
        [kind] = typing.get_args(typing.get_type_hints(record)["kind"])
        assert fields["kind"] == kind


def test_each_kind_that_is_shown_by_itself_has_one_sample():
    kinds = {
        field.default
        for each in ViewRecord.__subclasses__()
        for field in dataclasses.fields(each)
        if field.name == "kind"
    }
    samples = [sample_records.SAMPLES[name]().kind for name in sample_records.OF_EACH_KIND]
    assert sorted(samples) == sorted(kinds)


@pytest.mark.parametrize("name", sorted(set(sample_records.SAMPLES) - LARGE))
def test_a_record_survives_json(name):
    record = sample_records.SAMPLES[name]()
    text = json.dumps(record.to_dict(), allow_nan=False)
    assert json.loads(text) == dataclasses.asdict(record)


def test_a_program_of_10_000_equations_takes_less_than_3_megabytes():
    record = sample_records.SAMPLES["equations_10k"]()
    assert len(record.equations.id) > 10_000
    assert len(json.dumps(record.to_dict(), separators=(",", ":"))) < 3_000_000


def test_to_dict_shares_columns_instead_of_copying_them():
    record = sample_records.SAMPLES["mlp"]()
    assert record.to_dict()["equations"]["operands"] is record.equations.operands
