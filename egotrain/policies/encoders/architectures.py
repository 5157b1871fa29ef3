"""What a model that transformers knows looks like: from its folder, the local cache, or what a checkpoint carries."""

import base64
import json
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

from egodata.errors import InputError, NotFoundError
from egotrain.policies.encoders.config import CONV, HASHED_WORDS, ImageEncoderConfig, TextEncoderConfig

TOKENIZER = "tokenizer.json"
# Sizes of the reference models, so that a policy can be laid out and counted where their weights are not at hand.
REFERENCE: dict[str, dict[str, Any]] = {
    "microsoft/resnet-18": {
        "model_type": "resnet",
        "embedding_size": 64,
        "hidden_sizes": [64, 128, 256, 512],
        "depths": [2, 2, 2, 2],
        "layer_type": "basic",
    },
    "facebook/dinov3-vitb16-pretrain-lvd1689m": {
        "model_type": "dinov3_vit",
        "hidden_size": 768,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "intermediate_size": 3072,
        "patch_size": 16,
        "num_register_tokens": 4,
    },
    "Qwen/Qwen3-Embedding-0.6B": {
        "model_type": "qwen3",
        "vocab_size": 151669,
        "hidden_size": 1024,
        "intermediate_size": 3072,
        "num_hidden_layers": 28,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "tie_word_embeddings": True,
    },
}

EncoderConfig = ImageEncoderConfig | TextEncoderConfig


def architecture(config: EncoderConfig) -> Any:
    """Return the transformers configuration of an encoder.

    Raises:
        NotFoundError: No such folder, and the local cache has no such id.
    """
    from transformers import AutoConfig

    if config.embedded:
        found = _unpacked(config.embedded)["config"]
    elif config.source in REFERENCE and not _here(config.source):
        found = REFERENCE[config.source]
    else:
        return AutoConfig.from_pretrained(str(source_folder(config.source)), local_files_only=True)
    return AutoConfig.for_model(found["model_type"], **{key: value for key, value in found.items() if key != "model_type"})


def source_folder(source: str) -> Path:
    """Return the folder of a model, given by path or by hub id.

    Raises:
        NotFoundError: Neither is on this machine.
    """
    folder = Path(source).expanduser()
    if not (folder / "config.json").is_file():
        cached = _cached(source, "config.json")
        if cached is None:
            raise NotFoundError(
                f"encoder {source}: no folder with a config.json, and not in the local cache of models. "
                f"Download it beforehand (`hf download {source}`), or give its folder as policy.images.source or policy.text.source."
            )
        folder = cached.parent
    return folder


def tokenizer_text(config: TextEncoderConfig) -> str:
    """Return the tokenizer of a text model, as its JSON.

    Raises:
        InputError: The model's folder has no tokenizer.json.
        NotFoundError: No such folder.
    """
    if config.embedded:
        return str(_unpacked(config.embedded)["tokenizer"])
    folder = source_folder(config.source)
    path = folder / TOKENIZER if (folder / TOKENIZER).is_file() else _cached(config.source, TOKENIZER)
    if path is None:
        raise InputError(f"encoder {config.source}: {folder} has no {TOKENIZER}. Save the model's fast tokenizer there.")
    return path.read_text("utf-8")


def embedded(config: Any) -> Any:
    """Return an encoder's config, or a policy's with its encoders, that needs none of their files to build from a checkpoint's weights.

    Raises:
        NotFoundError: A model is not on this machine.
    """
    if not isinstance(config, EncoderConfig):
        return replace(config, images=embedded(config.images), text=embedded(config.text))
    if config.embedded or config.source in (CONV, HASHED_WORDS):
        return config
    source_folder(config.source)
    value = {"config": json.loads(architecture(config).to_json_string(use_diff=False))}
    if isinstance(config, TextEncoderConfig):
        value["tokenizer"] = tokenizer_text(config)
    return replace(config, embedded=base64.b64encode(zlib.compress(json.dumps(value, sort_keys=True).encode())).decode())


def _unpacked(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(text)))
    return found


def _here(source: str) -> bool:
    return (Path(source) / "config.json").is_file() or _cached(source, "config.json") is not None


def _cached(source: str, name: str) -> Path | None:
    """Return a file of the hub's local cache; never asks the network."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        found = try_to_load_from_cache(source, name)
    except HFValidationError:  # a path is no hub id
        return None
    return Path(found) if isinstance(found, str) else None
