import json

import numpy as np
import pytest
import torch

from egodata.errors import ConflictError, EpisodeNotFoundError, GateError, InputError, NotFoundError
from egodata.reports.prediction import horizon_colour
from egodata.video import scan_video
from egotrain.build import fit
from egotrain.compose import compose_evaluate
from egotrain.evaluate import evaluate
from egotrain.predict import locate, predict, write_predictions
from egotrain.videos import _errors_line


def test_a_video_has_every_frame_of_its_episode_at_thirty_per_second(done, small_store):
    run = done[1]
    said = []
    evaluate(run.path, compose_evaluate(["videos=1", "heads=[seen]"]), say=said.append)
    manifest = json.loads(small_store.manifest("small", "v1").read_text())
    (pin,) = manifest["identity"]["pins"]["seen"]
    path = run.path / f"videos/eval-00000004-zarr/seen/{pin}.mp4"
    assert f"video: {path}" in said
    ids = manifest["identity"]["heads"]["seen"]["ids"]
    frames = manifest["identity"]["heads"]["seen"]["frames"][ids.index(pin)]
    found = scan_video(path)
    assert found.frames == frames
    assert found.fps == 30
    assert path.with_suffix(".png").read_bytes().startswith(b"\x89PNG")


def test_a_pin_that_is_not_in_its_head_stops_the_run_before_it_starts(config):
    with pytest.raises(GateError, match="pin ep9: not in this head"):
        fit(config("evaluation.pins=[seen/ep9]", "evaluation.videos=1"))


def test_horizon_colours_begin_and_end_as_the_legend_says():
    assert horizon_colour(0.0) == (255, 232, 84)
    assert horizon_colour(1.0) == (226, 46, 150)
    assert horizon_colour(0.5) == (255, 120, 60)


def test_a_prediction_needs_the_checkpoint_and_an_episode_only(done, small_store, tmp_path):
    run = done[1]
    alone = tmp_path / "alone.ckpt"
    alone.write_bytes(locate(run.path).read_bytes())
    found = predict(alone, "ep1", store=small_store.root)
    lance = predict(alone, "ep1", store=small_store.root, format="lance")
    assert found.step == 4
    assert found.found.actions.shape == (45, 100, 18)
    assert found.left_out == 0
    np.testing.assert_array_equal(found.found.actions, lance.found.actions)
    assert set(found.scores) >= {"head.xyz_mse_m2", "head.dtw_m", "wrist.rotation_final_deg"}
    some = predict(alone, "ep1", store=small_store.root, frames=[3, 20])
    assert [sample.frame for sample in some.found.samples] == [3, 20]
    np.testing.assert_allclose(some.found.actions, found.found.actions[[3, 20]], rtol=1e-4, atol=1e-5)
    write_predictions(tmp_path / "out.npz", some)
    with np.load(tmp_path / "out.npz") as arrays:
        assert arrays["frames"].tolist() == [3, 20]
        np.testing.assert_array_equal(arrays["actions"], some.found.actions)
        assert arrays["names"][0] == "left.x"
    with pytest.raises(InputError, match=r"frame 99 is outside \[0, 45\)"):
        predict(alone, "ep1", store=small_store.root, frames=[99])
    with pytest.raises(EpisodeNotFoundError):
        predict(alone, "ep77", store=small_store.root)
    with pytest.raises(InputError, match=r"expected a name ending in .npz"):
        write_predictions(tmp_path / "out.csv", some)
    with pytest.raises(NotFoundError, match=r"did you mean step-00000004.ckpt"):
        locate(run.path / "checkpoints/step-0000004.ckpt")


def test_a_prediction_can_be_watched(done, small_store, tmp_path):
    found = predict(locate(done[1].path), "ep0", store=small_store.root, video=tmp_path / "ep0.mp4", frames=[5])
    assert [sample.frame for sample in found.found.samples] == [5]
    assert scan_video(tmp_path / "ep0.mp4").frames == 44


EXPORTED = """
import sys
sys.modules.update({name: None for name in ("egotrain", "egodata", "lightning", "transformers")})
import json, numpy as np, torch
about = json.load(open("policy.json"))
policy = torch.export.load("policy.pt2").module()
example = np.load("example.npz")
inputs = [torch.from_numpy(example[name]) for name in about["inputs"]]
with torch.inference_mode():
    actions = policy(*inputs)
    inputs[-1] = torch.zeros_like(inputs[-1])
    other = policy(*inputs)
assert list(actions.shape) == about["output"]["shape"]
assert abs(actions.numpy() - example["actions"]).max() < 1e-4
assert not torch.equal(actions, other)
print("same")
"""


def test_an_exported_policy_runs_without_our_code(done, tmp_path):
    import subprocess
    import sys

    from egotrain.export import export

    words = ("reach for the cube", "")
    out = export(locate(done[1].path), tmp_path / "out", prompts=words, image_size=(48, 64))
    assert {path.name for path in out.iterdir()} == {"policy.pt2", "policy.json", "example.npz", "README.md"}
    about = json.loads((out / "policy.json").read_text())
    assert about["prompts"] == list(words)
    assert about["shapes"]["images.front_1"] == {"shape": [1, 1, 48, 64, 3], "dtype": "uint8"}
    assert about["channels"]["action"][0] == "left.x"
    ended = subprocess.run([sys.executable, "-c", EXPORTED], cwd=out, capture_output=True, text=True, check=False, timeout=120)
    assert ended.stdout == "same\n", ended.stderr
    with pytest.raises(ConflictError, match="exists"):
        export(locate(done[1].path), out)
    with pytest.raises(InputError, match="expected different prompts"):
        export(locate(done[1].path), tmp_path / "none", prompts=("a", "a"))


@pytest.mark.parametrize("policy", ["hpt_tiny", "rdt_tiny"])
def test_an_exported_policy_obeys_its_prompt_as_the_policy_does(config, tmp_path, policy):
    from egotrain.export import export, input_names

    done = fit(config(f"policy={policy}", "optim.warmup_steps=0", "optim.learning_rate=0.01", run=f"prompts-{policy}"))
    words = ("reach for the cube", "", "cube")
    out = export(locate(done.path), tmp_path / "out", prompts=words)
    program = torch.export.load(out / "policy.pt2").module()
    example = np.load(out / "example.npz")
    inputs = {name: torch.from_numpy(example[name]) for name in input_names(("front_1",))}
    single = [export_alone(done.path, tmp_path / f"alone{k}", word) for k, word in enumerate(words)]
    with torch.inference_mode():
        found = [program(*{**inputs, "prompt": torch.tensor([k])}.values()) for k in range(len(words))]
        alone = [one(*inputs.values()) for one in single]
    assert not torch.equal(found[0], found[1]) and not torch.equal(found[0], found[2])
    for one, other in zip(found, alone, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-4)


def export_alone(run, out, word):
    from egotrain.export import export

    return torch.export.load(export(locate(run), out, prompts=(word,)) / "policy.pt2").module()


def test_captions_leave_out_what_was_not_recorded():
    nan = float("nan")
    scores = {"head.xyz_mse_m2": 0.1, "head.xyz_l2_early_m": 0.012, "head.xyz_l2_late_m": nan, "head.rotation_deg": 7.4}
    assert _errors_line(scores) == "early 1.2 cm, rotation 7 deg"
    assert _errors_line({"joint.mse": 0.5, "joint.l2_late": nan}) == "mse 0.5"
    assert _errors_line({"head.xyz_mse_m2": nan}) == "nothing recorded ahead"
