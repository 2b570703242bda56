"""All that is written goes through here: files and folders whole or not at all, appended lines, and locks."""

from __future__ import annotations

from gdpnet._core.files.atomic import atomic_path, write_json, write_text
from gdpnet._core.files.folders import check_new, check_no_links, found_in, locked_folder, new_folder
from gdpnet._core.files.lines import (
    append_line,
    check_lines,
    clear_lines,
    has_torn_end,
    read_objects,
    start_lines,
)
from gdpnet._core.files.objects import is_address
from gdpnet._core.files.places import Place, address_of, place_of, remove_folder, size_of
from gdpnet._core.files.plain import plain
from gdpnet._core.files.streams import is_stream, read_some
from gdpnet._core.files.temporary import delete_left

__all__ = [
    "Place",
    "address_of",
    "append_line",
    "atomic_path",
    "check_lines",
    "check_new",
    "check_no_links",
    "clear_lines",
    "delete_left",
    "found_in",
    "has_torn_end",
    "is_address",
    "is_stream",
    "locked_folder",
    "new_folder",
    "place_of",
    "plain",
    "read_objects",
    "read_some",
    "remove_folder",
    "size_of",
    "start_lines",
    "write_json",
    "write_text",
]
