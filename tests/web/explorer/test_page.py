"""The page: one file that runs nothing but its own scripts and holds text as text."""

import base64
import hashlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdpnet.web.explorer.page import bundle, content_policy, json_text, render_page
from helpers.pages import payload_of


def test_the_page_names_no_address_of_another_origin_to_load():
    page = render_page(None, api="/v1/explorer/")
    assert re.findall(r"<(?:script|link|img|iframe)[^>]*(?:src|href)=", page) == []
    assert "@import" not in page


def test_the_policy_has_the_checksum_of_every_script_and_style():
    page = render_page(None)
    found = re.findall(
        r"<(?:script|style)(?: type=\"module\"| id=\"__________cytoscape_stylesheet\")?>(.*?)</(?:script|style)>",
        page,
        re.DOTALL,
    )
    assert len(found) == 6
    for text in found:
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"sha256-{digest}" in content_policy(None)


def test_without_a_server_the_policy_forbids_every_request():
    assert "connect-src 'none'" in content_policy(None)
    assert "default-src 'none'" in content_policy(None)
    assert "connect-src 'self'" in content_policy("/v1/")
    assert "unsafe" not in content_policy(None)


@given(st.text())
def test_no_text_can_end_the_element_that_holds_the_data(text):
    written = json_text({"id": text})
    assert "<" not in written
    assert payload_of(f'<script type="application/json" id="payload">{written}</script>') == {"id": text}
    written.encode()


def test_numbers_that_json_does_not_have_are_null():
    assert json_text([float("nan"), float("inf"), 1.0]) == "[null,null,1.0]"


def test_title_and_address_of_the_server_are_escaped():
    page = render_page({"about": {"title": "</title><b>"}}, api='"><b>')
    assert "<title>GDPNet explorer: &lt;/title&gt;&lt;b&gt;</title>" in page
    assert 'data-api="&quot;&gt;&lt;b&gt;"' in page


def test_a_bundle_has_every_module_once_and_after_those_that_it_imports():
    text = bundle("main")
    names = re.findall(r"^const _(\w+) = \(\(\) => \{$", text, re.MULTILINE)
    assert names[-1] == "main"
    assert len(set(names)) == len(names)
    assert names.index("dom") < names.index("find") < names.index("main")
    assert re.findall(r"^(?:import|export) ", text, re.MULTILINE) == []


@pytest.mark.parametrize("api", [None, "/v1/explorer/"])
def test_a_page_without_data_holds_null(api):
    assert payload_of(render_page(None, api=api)) is None
