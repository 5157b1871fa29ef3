"""The public LeRobot loaders as a process that answers over pipes; runs in .venv-lerobot (`make bench-env-lerobot`), imports no egodata.

One JSON object per line in, one out:

    {"do": "open", "name": N, "loader": "lerobot" | "lancedb", "root": DIR, "delta": {feature: [seconds]}}  -> frames, episodes
    {"do": "items", "name": N, "indices": [...], "out": FILE.npz}                                          -> keys
    {"do": "sample", "name": N, "indices": [...]}                                                          -> cpu_s, read_bytes
    {"do": "train", "root": DIR, "steps": K}                                                               -> losses of ACT, tiny
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import torch
from lerobot.datasets.lerobot_dataset import LeRobotDataset
from lerobot_lancedb import LanceDBDataset

LOADERS = {"lerobot": LeRobotDataset, "lancedb": LanceDBDataset}


def read_bytes() -> int:
    return int(next(line.split()[1] for line in Path("/proc/self/io").read_text().splitlines() if line.startswith("rchar")))


class Peer:
    def __init__(self) -> None:
        self.opened: dict[str, Any] = {}

    def open(self, name: str, loader: str, root: str, delta: dict[str, list[float]]) -> dict[str, Any]:
        dataset = LOADERS[loader](f"local/{name}", root=root, delta_timestamps=delta or None, return_uint8=True)
        self.opened[name] = dataset
        return {"frames": len(dataset), "episodes": dataset.num_episodes, "tasks": list(dataset.meta.tasks.index)}

    def _read(self, name: str, indices: list[int]) -> list[dict[str, Any]]:
        dataset = self.opened[name]
        return dataset.__getitems__(indices) if hasattr(dataset, "__getitems__") else [dataset[index] for index in indices]

    def items(self, name: str, indices: list[int], out: str) -> dict[str, Any]:
        items = self._read(name, indices)
        arrays = {
            key: np.stack([item[key].numpy() for item in items]) for key, value in items[0].items() if isinstance(value, torch.Tensor)
        }
        np.savez(out, **arrays, task=np.array([item["task"] for item in items]))
        return {"keys": sorted(arrays)}

    def sample(self, name: str, indices: list[int]) -> dict[str, Any]:
        cpu, read = time.process_time(), read_bytes()
        self._read(name, indices)
        return {"cpu_s": time.process_time() - cpu, "read_bytes": read_bytes() - read}

    def train(self, root: str, steps: int) -> dict[str, Any]:
        from lerobot.datasets.dataset_metadata import LeRobotDatasetMetadata
        from lerobot.policies.act.configuration_act import ACTConfig
        from lerobot.policies.act.modeling_act import ACTPolicy
        from lerobot.policies.factory import make_pre_post_processors
        from lerobot.utils.feature_utils import dataset_to_policy_features

        torch.manual_seed(0)
        meta = LeRobotDatasetMetadata("local/train", root=root)
        features = dataset_to_policy_features(meta.features)
        inputs = {key: value for key, value in features.items() if key.startswith("observation")}
        config = ACTConfig(
            input_features=inputs,
            output_features={"action": features["action"]},
            chunk_size=10,
            n_action_steps=10,
            dim_model=32,
            n_heads=2,
            dim_feedforward=32,
            n_encoder_layers=1,
            n_vae_encoder_layers=1,
            pretrained_backbone_weights=None,
            device="cpu",
        )
        policy = ACTPolicy(config)
        before, _ = make_pre_post_processors(config, dataset_stats=meta.stats)
        deltas = {"action": [step / meta.fps for step in range(config.chunk_size)]}
        dataset = LeRobotDataset("local/train", root=root, delta_timestamps=deltas)
        loader = torch.utils.data.DataLoader(dataset, batch_size=4, shuffle=True, generator=torch.Generator().manual_seed(0))
        optimizer, losses = torch.optim.AdamW(policy.parameters(), 1e-3), []
        for _, batch in zip(range(steps), loader, strict=False):
            loss, _ = policy.forward(before(batch))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return {"losses": losses, "inputs": sorted(inputs)}


def main() -> None:
    torch.set_num_threads(1)
    answers, sys.stdout = sys.stdout, sys.stderr
    peer = Peer()
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(getattr(peer, request.pop("do"))(**request)), file=answers, flush=True)


if __name__ == "__main__":
    main()
