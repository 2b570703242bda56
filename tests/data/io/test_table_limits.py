"""Tables that take much time or memory, or hold what no library reads."""

import gzip
import time
import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gdpnet.data.io.files import read_graph
from gdpnet.data.labels import likely_typos
from gdpnet.errors import GraphError
from helpers.commands import EDGES, NODES, write_csv_graph

IDS = ["n0", "n1", "n2", "n3"]


def write_folder(tmp_path, **columns):
    """Write a graph folder of four nodes with Parquet columns of a test's own."""
    pq.write_table(pa.table({"id": IDS} | columns), tmp_path / "nodes.parquet")
    pq.write_table(pa.table({"source": ["n0", "n1"], "target": ["n1", "n2"]}), tmp_path / "edges.parquet")
    return tmp_path


def seconds_to_read(folder, columns: int, delimiter: str, cell: str) -> float:
    header = delimiter.join(["id", *(f"c{number}" for number in range(columns))])
    rows = [delimiter.join([name, *[cell] * columns]) for name in IDS]
    folder.mkdir()
    (folder / "nodes.csv").write_text("\n".join([header, *rows]))
    (folder / "edges.csv").write_text("source,target\nn0,n1\n")
    begin = time.process_time()
    read_graph(folder)
    return time.process_time() - begin


@pytest.mark.slow
@pytest.mark.parametrize(("delimiter", "cell"), [(",", "1.5"), (";", "1,5")])
def test_time_grows_with_the_number_of_columns_and_not_with_its_square(delimiter, cell, tmp_path):
    seconds_to_read(tmp_path / "first", 10, delimiter, cell)  # imports and caches
    few, many = (seconds_to_read(tmp_path / str(count), count, delimiter, cell) for count in (750, 3000))
    assert many < 8 * few + 0.5


def test_more_columns_than_the_limit_are_refused(tmp_path):
    folder = write_csv_graph(tmp_path, "id," + "," * 50_000 + "\n", EDGES)
    with pytest.raises(GraphError, match=r"nodes.csv can have at most 50,000 columns, found 50,002"):
        read_graph(folder)


def test_a_compressed_table_that_expands_more_than_a_hundredfold_is_refused(tmp_path):
    folder = write_csv_graph(tmp_path, NODES, EDGES)
    (folder / "edges.csv").unlink()
    with gzip.open(folder / "edges.csv.gz", "wb", compresslevel=9) as file:
        file.write(b"source,target\n")
        for _ in range(330):
            file.write(b"n0,n1\n" * (1 << 18))
    assert (folder / "edges.csv.gz").stat().st_size < 3 << 20
    tracemalloc.start()
    try:
        with pytest.raises(GraphError, match=r"may hold .* bytes for a file of this size, found more"):
            read_graph(folder)
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()


def repeated(value: str, rows: int) -> pa.Array:
    """Return a text that is stored once and stands in every row."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, dtype=np.int32)), pa.array([value]))


@pytest.mark.parametrize(
    "table",
    [
        lambda: pa.table({"id": np.zeros(1 << 26, dtype=np.int64)}),
        lambda: pa.table({"id": np.arange(1 << 16), "big": repeated("x" * 1_000_000, 1 << 16)}),
    ],
    ids=["numbers", "texts"],
)
def test_a_parquet_file_whose_values_repeat_without_end_is_refused(table, tmp_path):
    pq.write_table(pa.table({"source": [0], "target": [1]}), tmp_path / "edges.parquet")
    for known in (False, True):  # whether the file says that texts are repeated
        pq.write_table(table(), tmp_path / "nodes.parquet", store_schema=known)
        with pytest.raises(GraphError, match=r"for a file of this size"):
            read_graph(tmp_path)


def test_parquet_text_that_is_not_utf_8_is_refused_in_one_sentence(tmp_path):
    spoilt = pa.array([b"\xff\xfe", b"a", b"b", b"c"], pa.binary()).view(pa.string())
    with pytest.raises(GraphError, match=r"nodes.parquet cannot be read as a PARQUET table: .*UTF8"):
        read_graph(write_folder(tmp_path, label=spoilt))


@pytest.mark.parametrize(
    "column",
    [
        pa.array([{"a": 1}] * 4),
        pa.array([1.5] * 4, pa.float16()),
        pa.array([b"abc"] * 4),
        pa.array([[1.0], [2.0, 3.0], [], None]),
        pa.array([2**63] * 4, pa.uint64()),
        pa.nulls(4),
    ],
    ids=str,
)
def test_columns_of_any_type_are_read_or_refused_in_one_sentence(column, tmp_path):
    for name in ("x", "label", "split"):
        folder = tmp_path / name
        folder.mkdir()
        try:
            graph = read_graph(write_folder(folder, **{name: column}))
            assert graph.num_nodes == 4
        except GraphError as error:
            assert len(str(error)) <= 300  # noqa: PT017 - either is right


def test_ids_in_half_precision_are_whole_numbers(tmp_path):
    pq.write_table(pa.table({"id": pa.array(np.arange(3, dtype=np.float16))}), tmp_path / "nodes.parquet")
    pq.write_table(pa.table({"source": [0], "target": [2]}), tmp_path / "edges.parquet")
    assert read_graph(tmp_path).node_ids.tolist() == [0, 1, 2]


def test_classes_of_5000_digits_are_read(tmp_path):
    long = "9" * 5000
    graph = read_graph(
        write_csv_graph(tmp_path, f"id,label\na,{long}\nb,7\nc,{long}\n", "source,target\na,b\n")
    )
    assert sorted(graph.class_names) == ["7", long]


def test_a_feature_number_of_a_billion_is_refused_with_its_row(tmp_path):
    folder = write_csv_graph(tmp_path, "id,label\na,x\nb,y\n", "source,target\na,b\n")
    (folder / "features.csv").write_text("node,feature,value\na,0,1\nb,999999999,1\n")
    with pytest.raises(GraphError, match=r"numbers below 1,048,576, found 999999999 in row 2"):
        read_graph(folder)


def test_one_long_id_among_many_is_refused(tmp_path):
    ids = [*(f"n{number}" for number in range(20_000)), "x" * 8010]
    folder = write_csv_graph(tmp_path, "id\n" + "\n".join(ids), "source,target\nn0,n1\n")
    with pytest.raises(GraphError, match=r"one of 8,010 characters among 20,001"):
        read_graph(folder)


@pytest.mark.parametrize("mark", [b"[" * 100_000, b"{", b'{"columns": 3}', b"[]", b"\xff"])
def test_a_damaged_encoding_in_a_parquet_file_is_refused(mark, tmp_path):
    folder = write_folder(tmp_path, x=pa.array([1.0, 2.0, 3.0, 4.0]))
    table = pq.read_table(folder / "nodes.parquet").replace_schema_metadata({b"gdpnet": mark})
    pq.write_table(table, folder / "nodes.parquet")
    with pytest.raises(GraphError, match="encoding"):
        read_graph(folder)


def test_very_many_classes_are_not_all_compared_for_typos():
    names = [f"class of {number:x}" + "abc" * 30 for number in range(3000)]
    begin = time.perf_counter()
    likely_typos(names, [20] * 3000)
    assert time.perf_counter() - begin < 5


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_quote_without_a_partner_does_not_swallow_the_rows_after_it(encoding, tmp_path):
    (tmp_path / "edges.csv").write_text("source,target\na,b\nb,c\n")
    (tmp_path / "nodes.csv").write_text('id,x,words\na,1,"hello\nb,2,bye\nc,3,so\n', encoding=encoding)
    with pytest.raises(
        GraphError, match=r"nodes.csv has a quoted value that does not end, in the row that begins in line 2:"
    ):
        read_graph(tmp_path)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("header", "last"),
    [
        ("id,words", 'c,"so far'),
        ("id,words", 'c,"he said ""no""'),
        ("id,words", 'c,"'),
        ("id,x", 'c,"0.5'),
        ("id;words", 'c;"so; far'),
        ("words,id", '5" wide,"c'),
    ],
)
def test_a_table_cut_within_its_last_quoted_value_is_refused(header, last, packed, tmp_path):
    (tmp_path / "edges.csv").write_text("source,target\na,b\n")
    mark = header[-6] if header.endswith("words") else ","
    text = f"{header}\r\na{mark}1\r\nb{mark}2\r\n{last}"
    if packed:
        (tmp_path / "nodes.csv.gz").write_bytes(gzip.compress(text.encode()))
    else:
        (tmp_path / "nodes.csv").write_bytes(text.encode())
    with pytest.raises(
        GraphError, match=r"nodes\.csv.* a quoted value that does not end, .* in line 4:"
    ) as found:
        read_graph(tmp_path)
    assert len(str(found.value)) <= 300
    assert "\n" not in str(found.value)


def test_every_cut_of_a_quoted_table_is_refused_unless_its_last_row_may_be_whole(tmp_path):
    (tmp_path / "edges.csv").write_text("source,target\na,b\n")
    rows = '"id","label"\n"a","u"\n', '"b",', '"v, "', '"w"', '" or\nx"', "\n"
    text = "".join(rows)
    # after a row, after its comma, and between two quotes that stand for one
    may_be_whole = {len("".join(rows[:count])) for count in range(1, 6)}
    for end in range(len(rows[0]), len(text)):
        (tmp_path / "nodes.csv").write_text(text[:end])
        try:
            read_graph(tmp_path)
        except GraphError:
            continue
        assert end in may_be_whole


def test_quotes_inside_values_and_values_of_several_lines_are_read(tmp_path):
    (tmp_path / "edges.csv").write_text("source,target\na,b\n")
    for last in ('5" screen', '"5"" screen"', '"5"" screen\nof glass"', '"5"" screen"", ""of glass"'):
        for end in ("", "\n", "\n\n"):
            (tmp_path / "nodes.csv").write_text(f"id,label\na,u\nb,{last}{end}")
            assert read_graph(tmp_path).class_names[0].startswith('5" screen')


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (pa.large_binary(), {}),
        (pa.binary(), {}),
        (pa.binary(4000), {}),
        (pa.string(), {"use_dictionary": False, "compression": "zstd"}),
        (pa.string(), {"use_dictionary": False, "column_encoding": {"id": "PLAIN", "s": "DELTA_BYTE_ARRAY"}}),
    ],
    ids=["large bytes", "bytes", "bytes of one length", "compressed text", "differences"],
)
def test_bytes_and_texts_that_repeat_are_refused_however_they_are_stored(
    kind, options, tmp_path, monkeypatch
):
    monkeypatch.setattr("gdpnet._core.limits.FREE_BYTES", 1 << 20)
    rows = 100_000
    column = pa.array(["z" * 4000] * 1000).cast(pa.binary()).cast(kind)
    table = pa.table({"id": pa.array(range(rows)), "s": pa.chunked_array([column] * (rows // 1000))})
    pq.write_table(table, tmp_path / "nodes.parquet", **options)
    pq.write_table(pa.table({"source": [0], "target": [1]}), tmp_path / "edges.parquet")
    with pytest.raises(GraphError, match="for a file of this size"):
        read_graph(tmp_path)


def number_of(size: int, length: int = 0) -> bytes:
    """Return a size as a footer holds it, in a given number of bytes."""
    digits, size = [], 2 * size
    while size or len(digits) < length or not digits:
        digits.append(size & 127 | 128)
        size >>= 7
    return bytes([*digits[:-1], digits[-1] & 127])


def rewrite_footer(path, changes):
    """Replace bytes in the footer of a Parquet file by others of the same length."""
    content = path.read_bytes()
    start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    footer = content[start:]
    for old, new in changes:
        assert old in footer
        footer = footer.replace(old, new)
    path.write_bytes(content[:start] + footer)


def test_a_parquet_file_that_lies_about_the_size_of_its_texts_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("gdpnet._core.limits.FREE_BYTES", 1 << 20)
    folder = write_folder(tmp_path, s=pa.array(["z" * 4_000_000] * 4))
    path = folder / "nodes.parquet"
    pq.write_table(
        pq.read_table(path), path, use_dictionary=False, compression="zstd", write_statistics=False
    )
    honest = pq.read_metadata(path).row_group(0).column(1).total_uncompressed_size
    assert honest > 16_000_000
    rewrite_footer(path, [(number_of(honest), number_of(1000, len(number_of(honest))))])
    assert pq.read_metadata(path).row_group(0).column(1).total_uncompressed_size == 1000
    before = pa.default_memory_pool().max_memory()
    with pytest.raises(
        GraphError, match=r"nodes.parquet may hold .* bytes for a file of this size, found more"
    ):
        read_graph(folder)
    assert pa.default_memory_pool().max_memory() - before < 4_000_000


def test_a_parquet_file_that_lies_about_the_encoding_of_its_texts_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("gdpnet._core.limits.FREE_BYTES", 1 << 20)
    rows, folder = 20_000, write_folder(tmp_path)
    table = pa.table({"id": pa.array(range(rows)), "s": repeated("z" * 10_000, rows)})
    path = folder / "nodes.parquet"
    pq.write_table(table, path, store_schema=False, write_statistics=False)
    rewrite_footer(path, [(b"\x35\x00\x06\x10", b"\x35\x00\x06\x06")])  # a dictionary, as plain runs
    assert "DICTIONARY" not in str(pq.read_metadata(path).row_group(0).column(1).encodings)
    before = pa.default_memory_pool().max_memory()
    with pytest.raises(GraphError, match="for a file of this size"):
        read_graph(folder)
    assert pa.default_memory_pool().max_memory() - before < 50_000_000


def test_a_parquet_file_whose_columns_are_the_same_bytes_is_refused(tmp_path):
    rows, folder = 1250, write_folder(tmp_path)
    short, long = ([f"{number:0{width}}" for number in range(rows)] for width in (8, 80))
    path = folder / "nodes.parquet"
    table = pa.table({"id": range(rows), "long": long, "one": short, "two": short})
    pq.write_table(table, path, use_dictionary=False, compression="none", write_statistics=False)
    _, first, *others = (pq.read_metadata(path).row_group(0).column(place) for place in range(4))
    given = {one.data_page_offset: first.data_page_offset for one in others}
    given |= {one.total_compressed_size: first.total_compressed_size for one in others}
    changes = [(number_of(old), number_of(new, len(number_of(old)))) for old, new in given.items()]
    rewrite_footer(path, changes)
    assert pq.read_metadata(path).row_group(0).column(3).data_page_offset == first.data_page_offset
    with pytest.raises(GraphError, match="columns that share bytes of the file"):
        read_graph(folder)


def test_repeated_texts_in_lists_and_objects_are_never_written_out(tmp_path):
    rows, text = 20_000, "z" * 8000
    texts = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, dtype=np.int32)), [text])
    nested = pa.StructArray.from_arrays([texts], ["t"])
    table = pa.table({"id": pa.array(range(rows)), "x": pa.array(range(rows)), "s": nested})
    pq.write_table(table, tmp_path / "nodes.parquet", store_schema=False)
    pq.write_table(pa.table({"source": [0], "target": [1]}), tmp_path / "edges.parquet")
    most = pa.default_memory_pool().max_memory()
    graph = read_graph(tmp_path)
    assert graph.num_nodes == rows
    assert pa.default_memory_pool().max_memory() - most < rows * len(text) // 4
