"""A two-arm robot episode made of a small human one, and a store that holds both bodies."""

from dataclasses import replace
from fractions import Fraction

import numpy as np

from egodata.calibration import Calibration
from egodata.catalog import freeze
from egodata.catalog.rules import load_rule
from egodata.formats.lance import build_lance
from egodata.formats.zarr import publish_draft
from egodata.schema.features import SIDES, FeatureSpec, mask_spec, pose_spec, valid_key
from egodata.schema.layout import open_root
from egodata.testing.drafts import small_draft
from egodata.video import SWIFT

CAMERAS = ("front_1", "left_wrist", "right_wrist")
RULE = "name: {name}\nversion: v1\nwhere: {{vendor: {vendor}}}\nvalid_ratio: 0.25\nheads: "
HUMANS = RULE.format(name="hands", vendor="mecka") + "[train, seen, unseen_operator]\nheld_out_operators: [mecka/op2]\n"
ROBOTS = RULE.format(name="robots", vendor="eva") + "[train, seen]\npins:\n  seen: {count: 1}\n"
MORE = RULE.format(name="more", vendor="scale") + "[train, seen]\n"


def robot_draft(folder, k):
    """Return an Eva-like episode: measured and commanded poses and grippers of both arms, three cameras."""
    draft = small_draft(folder, frames=50 + k, seed=20 + k, episode_id=f"arm{k}", operator=None)
    arrays = {key: value for key, value in draft.arrays.items() if key == "obs_rgb_timestamps_ns"}
    features = {key: draft.meta.features[key] for key in arrays}
    total = draft.meta.total_frames
    for side in SIDES:
        poses = np.array(draft.arrays["right.obs_ee_pose"], np.float32) * np.float32([0.5] * 3 + [1] * 4)
        grips = (0.5 + 0.5 * np.sin(np.arange(total) / (9 + len(side)))).astype(np.float32)[:, None]
        for prefix, ahead in (("obs", 0), ("cmd", 1)):
            moved = np.concatenate([poses[ahead:], np.repeat(poses[-1:], ahead, 0)])
            for name, values, spec in (
                (f"{side}.{prefix}_ee_pose", moved, pose_spec("base")),
                (f"{side}.{prefix}_gripper", grips, FeatureSpec("float32", (1,), ("gripper",))),
            ):
                arrays[name], arrays[valid_key(name)] = values, np.ones(total, bool)
                features[name], features[valid_key(name)] = spec, mask_spec()
    for camera in CAMERAS[1:]:
        rows, valid = f"images.{camera}_source_row", f"images.{camera}_valid"
        arrays[rows], features[rows] = np.arange(total, dtype=np.int32), FeatureSpec("int32", ())
        arrays[valid], features[valid] = np.ones(total, bool), mask_spec()
    meta = replace(draft.meta, vendor="eva", dataset="arms", embodiment="eva_bimanual", features=features, fps=Fraction(30), session=None)
    front = draft.calibration.cameras["front_1"]
    calibration = Calibration("base", dict.fromkeys(CAMERAS, front))
    return replace(draft, meta=meta, arrays=arrays, videos=dict.fromkeys(CAMERAS, draft.videos["front_1"]), calibration=calibration)


def store_of_bodies(folder):
    """Six human episodes frozen as hands@v1, four of a robot as robots@v1, four of another vendor's people as more@v1; both formats."""
    paths = open_root(folder / "store", create=True)
    for k in range(6):
        publish_draft(paths, small_draft(folder, frames=44 + k, seed=k, episode_id=f"ep{k}", operator=f"op{k % 3}"), settings=SWIFT)
    for k in range(4):
        publish_draft(paths, robot_draft(folder, k), settings=SWIFT)
        human = small_draft(folder, frames=40 + k, seed=40 + k, episode_id=f"more{k}", operator=f"other{k}")
        publish_draft(paths, replace(human, meta=replace(human.meta, vendor="scale")), settings=SWIFT)
    build_lance(paths)
    for text in (HUMANS, ROBOTS, MORE):
        rule = folder / "rule.yaml"
        rule.write_text(text)
        freeze(paths, load_rule(str(rule)))
    return paths
