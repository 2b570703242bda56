"""npz files that lie about their size, or hold what numpy does not write."""

import io
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest

from gdpnet.data.io.archive import read_archive, read_header
from gdpnet.data.io.files import read_graph
from gdpnet.errors import GraphError


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def header_of(shape: tuple[int, ...], descr: str = "<f8") -> bytes:
    """Return the start of an array's file, without its values."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": descr, "fortran_order": False, "shape": shape})
    return file.getvalue()


def write_zip(path, members: dict[str, bytes], how: int = zipfile.ZIP_DEFLATED) -> None:
    with zipfile.ZipFile(path, "w", how) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def refused(path, sentence: str) -> None:
    """Check that a file is refused, without much memory."""
    tracemalloc.start()
    try:
        with pytest.raises(GraphError, match=sentence) as caught:
            read_graph(path)
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()
    assert len(str(caught.value)) <= 300


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6).reshape(2, 3),
        np.asfortranarray(np.ones((3, 2))),
        np.array(["a", "bcd"]),
        np.zeros((0, 4)),
        np.array(3),
    ],
    ids=["rows", "columns", "text", "empty", "one"],
)
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_are_read_as_numpy_reads_them(array, save, tmp_path):
    save(tmp_path / "a.npz", x=array)
    found = read_archive(tmp_path / "a.npz")["x"]
    assert found.dtype == array.dtype
    assert np.array_equal(found, array)


def test_foreign_byte_order_becomes_that_of_the_machine(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.arange(5, dtype=">i8"), y=np.arange(3, dtype=">f4"))
    found = read_archive(tmp_path / "a.npz")
    assert all(array.dtype.isnative for array in found.values())
    assert found["x"].tolist() == [0, 1, 2, 3, 4]


def test_objects_are_left_out_and_never_unpickled(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.array([{}], dtype=object), y=np.arange(2))
    assert list(read_archive(tmp_path / "a.npz")) == ["y"]


def test_an_archive_that_expands_more_than_a_hundredfold_is_refused_before_it_does(tmp_path):
    write_zip(tmp_path / "a.npz", {"adj_data.npy": npy(np.zeros(1 << 26, dtype=np.uint8)) * 5})
    refused(tmp_path / "a.npz", r"its arrays may have .* bytes for a file of this size")


def test_a_header_that_promises_more_than_the_file_holds_is_refused(tmp_path):
    write_zip(tmp_path / "a.npz", {"adj_data.npy": header_of((1 << 40,)) + b"\0" * 80})
    refused(tmp_path / "a.npz", "must be as large as its header says")
    write_zip(tmp_path / "a.npz", {"adj_data.npy": header_of((1 << 40, 1 << 40))})
    refused(tmp_path / "a.npz", "cannot have the shape")


def test_a_size_in_the_list_of_members_that_lies_is_refused(tmp_path):
    path = tmp_path / "a.npz"
    write_zip(path, {"adj_data.npy": npy(np.arange(100))})
    content = bytearray(path.read_bytes())
    start = content.rindex(b"PK\x01\x02")
    struct.pack_into("<I", content, start + 24, 3_000_000_000)
    path.write_bytes(bytes(content))
    refused(path, "its arrays may have")


@pytest.mark.parametrize("how", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_other_compression_than_numpys_is_refused(how, tmp_path):
    write_zip(tmp_path / "a.npz", {"adj_data.npy": npy(np.arange(100))}, how)
    refused(tmp_path / "a.npz", "must be stored or deflated")


@pytest.mark.parametrize("array", [np.zeros(2, "M8[s]"), np.zeros(2, [("a", int)]), np.zeros(2, complex)])
def test_arrays_of_neither_numbers_nor_text_are_refused(array, tmp_path):
    np.savez(tmp_path / "a.npz", adj_data=array)
    refused(tmp_path / "a.npz", "must hold numbers or text")


def test_a_member_that_is_no_array_is_refused_as_its_name_may_be_damaged(tmp_path):
    write_zip(
        tmp_path / "a.npz", {"row_ptr.npy": npy(np.arange(3)), "corrupted": npy(np.zeros(2, dtype=bool))}
    )
    with pytest.raises(GraphError, match=r"arrays \(\.npy\) alone, found 'corrupted'"):
        read_archive(tmp_path / "a.npz")


def header_with(words: bytes) -> io.BytesIO:
    return io.BytesIO(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(words)) + words)


@pytest.mark.parametrize("words", [b"~" * 9500 + b"1", b"[" * 9000, b"{'descr': 1}", b"(" * 200 + b")" * 200])
def test_a_header_that_no_parser_can_read_is_refused(words):
    with pytest.raises(GraphError, match="the header of an array must be as numpy writes it"):
        read_header(header_with(words))


def test_a_header_of_python_2_is_read_without_a_warning():
    words = b"{'descr': '<f8', 'fortran_order': False, 'shape': (4L,), }" + b" " * 20 + b"\n"
    shape, fortran, dtype, _ = read_header(header_with(words))
    assert (shape, fortran, dtype) == ((4,), False, np.dtype("<f8"))
