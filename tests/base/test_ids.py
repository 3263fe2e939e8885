import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slc_ops.base.errors import InputError
from slc_ops.base.hashing import keys_of
from slc_ops.base.ids import IdIndex, numbered

texts = st.lists(st.text(max_size=40), unique=True, max_size=60)
numbers = st.lists(st.integers(-(2**63), 2**63 - 1), unique=True, max_size=60)


@settings(max_examples=200, deadline=None)
@given(st.one_of(texts, numbers), st.one_of(texts, numbers))
def test_the_index_answers_like_a_dictionary(known, others):
    kind = pa.string() if any(isinstance(item, str) for item in known) else pa.int64()
    index = IdIndex(pa.array(known, kind))
    place = {item: position for position, item in enumerate(known)}
    asked = known + [item for item in others if isinstance(item, str) == (kind == pa.string())]
    expected = [place.get(item, -1) for item in asked]
    assert index.positions(pa.array(asked, kind)).tolist() == expected
    assert [index.position(item) for item in asked] == expected


@settings(max_examples=200, deadline=None)
@given(
    st.one_of(
        st.lists(st.lists(st.text(max_size=20), max_size=30), min_size=1, max_size=12),
        st.lists(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=30), min_size=1, max_size=12),
        st.lists(st.lists(st.integers(-9, 40), max_size=30), min_size=1, max_size=12),
    ),
)
def test_ids_are_numbered_in_order_of_first_appearance(pieces):
    kind = pa.string() if any(isinstance(one, str) for piece in pieces for one in piece) else pa.int64()
    ids, codes = numbered([pa.array(piece, kind) for piece in pieces])
    place: dict[object, int] = {}
    for piece in pieces:
        for one in piece:
            place.setdefault(one, len(place))
    assert [each.tolist() for each in codes] == [[place[one] for one in piece] for piece in pieces]
    assert ids.to_pylist() == list(place)


@pytest.mark.parametrize("first", [1, 1 << 40])
def test_an_integer_and_its_text_are_the_same_id(first):
    texts = pa.array(["x", "2", str(first)])
    ids, codes = numbered([pa.array([first, 2]), texts, pa.array([2, 5])])
    assert [each.tolist() for each in codes] == [[0, 1], [2, 1, 0], [1, 3]]
    assert ids.to_pylist() == [str(first), "2", "x", "5"]
    numbers = IdIndex(pa.array([7, -3]))
    asked = ["7", "07", "7\n", "-3", "", "9" * 30, "-0", "x"]
    assert numbers.positions(asked).tolist() == [numbers.position(each) for each in asked]
    assert numbers.positions(asked * 3).tolist() == [0, -1, -1, 1, -1, -1, -1, -1] * 3
    assert IdIndex(texts).positions([2, first] * 9).tolist() == [1, 2] * 9
    assert IdIndex(texts).position(2) == 1


def test_texts_that_differ_only_in_trailing_zero_bytes_are_different():
    ids = ["", "\0", "\0\0", "a", "a\0", "abcdefgh", "abcdefgh\0", "x" * 15, "x" * 15 + "\0", "x" * 16]
    index = IdIndex(pa.array(ids))
    assert index.positions(pa.array(ids)).tolist() == list(range(len(ids)))


def test_long_texts_with_equal_prefixes_stay_distinct():
    ids = pa.array([f"{'https://example.org/' * 3}{number}" for number in range(5000)])
    keys = keys_of(ids)
    assert len(set(zip(keys[0].tolist(), keys[1].tolist(), strict=True))) == 5000


def test_a_sliced_column_is_looked_up_by_its_own_rows():
    ids = pa.array([f"item {number}" for number in range(40_000)])
    index = IdIndex(ids)
    part = ids.slice(20_001, 17_000)
    assert index.positions(part).tolist() == list(range(20_001, 37_001))


@pytest.mark.parametrize(
    "ids",
    [
        ["a", "b"] * 10,
        np.array(["a", "b"] * 10),
        pa.array(["a", "b"] * 10, pa.large_string()),
        pa.array(["a", "b"] * 10).dictionary_encode(),
        pa.chunked_array([["a"], ["b"] * 19]),
    ],
)
def test_ids_may_be_in_any_container(ids):
    index = IdIndex(pa.array(["a", "b"]))
    assert (index.positions(ids) >= 0).all()


@pytest.mark.parametrize("ids", [[True], [1.5] * 20, [object()] * 20, [1 << 70] * 20])
def test_ids_of_another_type_are_refused(ids):
    with pytest.raises(InputError):
        IdIndex(pa.array(["a"])).positions(ids)


def test_an_empty_index_contains_no_id():
    index = IdIndex(pa.array([], pa.string()))
    assert index.positions(["a"] * 20).tolist() == [-1] * 20
    assert index.position("a") == -1
    assert index.positions([]).tolist() == []


@pytest.mark.parametrize("length", [3, 30])
@pytest.mark.parametrize("make", [list, pa.array, lambda ids: pa.array(ids, pa.string_view())])
def test_a_null_is_an_unknown_id(make, length):
    ids = ["b", None, "x"] * (length // 3)
    assert IdIndex(pa.array(["a", "b"])).positions(make(ids)).tolist() == [1, -1, -1] * (length // 3)
    assert IdIndex(pa.array(["a"])).positions(make([None] * length)).tolist() == [-1] * length


def test_a_text_index_accepts_unsigned_columns_and_refuses_single_ids_above_64_bits():
    large = (1 << 64) - 1
    index = IdIndex(pa.array(["7", str(large)]))
    assert index.positions([str(large), 7]).tolist() == [1, 0]
    with pytest.raises(InputError, match="does not fit 64 bits"):
        index.positions([large, 7])
    assert index.positions(pa.array([7, large] * 10, pa.uint64())).tolist() == [0, 1] * 10
