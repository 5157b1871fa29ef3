"""The same episode as a vendor shows it that delivers rectified frames."""

from dataclasses import replace

from egodata.testing.world.simulate import SimulatedEpisode


def rectified(episode: SimulatedEpisode) -> SimulatedEpisode:
    """Return the episode seen without lens distortion, through the same K."""
    return replace(episode, distortion=(0.0, 0.0, 0.0, 0.0))
