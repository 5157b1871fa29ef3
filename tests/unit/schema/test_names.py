"""Ids, names, embodiments: what is allowed, how it sorts, what an error says."""

import pytest

from egodata.errors import SchemaError
from egodata.names import nearest
from egodata.schema.features import FeatureSpec, is_camera, keypoints_spec, mask_spec, pose_spec, resolve_embodiment
from egodata.schema.ids import (
    case_collisions,
    check_dataset_name,
    check_dataset_version,
    check_episode_id,
    check_feature_key,
    dataset_ref,
    sorted_ids,
)


@pytest.mark.parametrize("value", ["a", "692e771c39719ab57395b408", "mecka-fold_clothes-000012-c30-90", "A" * 96])
def test_episode_ids(value):
    assert check_episode_id(value) == value


@pytest.mark.parametrize("value", ["", "a" * 97, "a.b", "a/b", "..", "a b", "é", "a\n"])
def test_other_episode_ids_are_refused(value):
    with pytest.raises(SchemaError, match="expected 1 to 96 characters of A-Z a-z 0-9 _ -. Rename the recording."):
        check_episode_id(value)


@pytest.mark.parametrize("value", ["", ".", "..", "a--b", "a-", "-a", "a@b", "a/b", "a" * 97])
def test_other_dataset_names_are_refused(value):
    with pytest.raises(SchemaError, match="without '--' and no '-' at the ends"):
        check_dataset_name(value)


def test_feature_keys_map_to_lance_columns_and_back():
    assert check_feature_key("left.obs_ee_pose") == "left.obs_ee_pose"
    for value in ("left__obs", "Left.obs", "", ".obs", "a:b"):
        with pytest.raises(SchemaError, match="expected a-z 0-9 _ . without '__'"):
            check_feature_key(value)


def test_ids_sort_by_bytes_in_any_locale():
    assert sorted_ids(["b", "B", "a_", "a-", "a0", "a"]) == ["B", "a", "a-", "a0", "a_", "b"]


def test_ids_that_differ_in_case_only_are_found():
    assert case_collisions(["ep1", "EP1", "ep2", "ep1"]) == [("EP1", "ep1")]
    assert case_collisions(["a", "b"]) == []


def test_dataset_references():
    assert dataset_ref("fold.clothes@v1.2") == ("fold.clothes", "v1.2")
    with pytest.raises(SchemaError, match="expected NAME@VERSION, got no version"):
        dataset_ref("fold")
    with pytest.raises(SchemaError, match="'latest' moves"):
        dataset_ref("fold@latest")
    with pytest.raises(SchemaError, match="'latest': it moves"):
        check_dataset_version("latest")


def test_embodiments_resolve_by_name_and_alias():
    assert resolve_embodiment("human_bimanual") == ("human_bimanual", False)
    assert resolve_embodiment("mecka_left_arm") == ("human_left_arm", True)
    with pytest.raises(SchemaError, match="did you mean human_bimanual"):
        resolve_embodiment("human_bimanul")


def test_nearest_names_what_is_close_else_what_exists():
    assert nearest("obs_hed_pose", ["obs_head_pose", "x"]) == "did you mean obs_head_pose?"
    assert nearest("zzz", []) == "none exist"
    assert nearest("zzz", [f"name{i}" for i in range(10)]).endswith("and 2 more")


def test_feature_specs_survive_json():
    video = {"codec": "h264"}
    for spec in (pose_spec("base"), keypoints_spec(), mask_spec(21), FeatureSpec("h264", (48, 64, 3), video=video)):
        assert FeatureSpec.from_json(spec.to_json()) == spec
    assert FeatureSpec.from_json({"dtype": "float32", "shape": [7], "names": None}) == FeatureSpec("float32", (7,))


def test_a_camera_is_told_from_its_mask():
    assert is_camera("images.front_1", FeatureSpec("h264", (48, 64, 3)))
    assert not is_camera("images.front_1_valid", mask_spec())
    assert not is_camera("depth.front_1", FeatureSpec("h264", (48, 64, 3)))
