"""Files of a delivery: what leads out of it, however the question is asked."""

import os

import pytest

from egodata.vendors.files import Listing, is_inside


@pytest.fixture
def delivery(tmp_path):
    root, outside = tmp_path / "delivery", tmp_path / "outside"
    (root / "folder").mkdir(parents=True)
    outside.mkdir()
    (root / "folder" / "file").touch()
    (outside / "file").touch()
    os.symlink(outside, root / "out")
    os.symlink("folder", root / "in")
    os.symlink("loop", root / "loop")
    os.symlink("../folder/file", root / "folder" / "twin")
    os.symlink("nowhere", root / "folder" / "broken")
    os.symlink(root, tmp_path / "alias")
    return root


@pytest.mark.parametrize(
    ("name", "inside"),
    [
        ("folder/file", True), ("folder/twin", True), ("folder/broken", True), ("folder/none", True), ("in/file", True), (".", True),
        ("out", False), ("out/file", False), ("loop", False), ("folder/../../outside/file", False), ("folder/../folder/file", True),
        ("a\0b", False), ("x" * 300, True),
    ],
)  # fmt: skip
def test_a_path_is_inside_if_it_is_once_links_are_resolved(delivery, name, inside):
    assert is_inside(delivery, delivery / name) is inside
    assert is_inside(delivery.parent / "alias", delivery / name) is inside  # by another name of the same folder
    assert is_inside(delivery, delivery.parent / "alias" / name) is inside


def test_a_listing_knows_files_and_links(delivery):
    (delivery / "folder" / "sub").mkdir()
    os.symlink("sub", delivery / "folder" / "door")
    os.symlink("knot", delivery / "folder" / "knot")
    there = Listing.of(delivery / "folder")
    assert there.names == {"file", "twin", "broken", "sub", "door", "knot"}
    assert there.files == {"file", "twin"}
    assert there.links == {"twin", "broken", "door", "knot"}
