"""Short pieces of music: composed from a few numbers, and measured from their samples alone."""

from __future__ import annotations

import itertools
import math
import random
import sys
import wave
from array import array
from typing import TYPE_CHECKING

from rota.core.record import Record

if TYPE_CHECKING:
    from collections.abc import Sequence

RATE = 8000
SECONDS = 3
STEP = 80  # samples of which one loudness is taken: a hundredth of a second
FULL = 32767
SLOWEST, FASTEST = 60, 180


class Piece(Record):
    """A piece to play: tempo in beats per minute, pitch in Hz, level from 0 to 1."""

    tempo: int
    pitch: float
    level: float


class Measured(Record):
    """Measurements: loudness in dB relative to full scale, tempo in beats per minute, brightness in Hz."""

    loudness: float
    tempo: int
    brightness: float


def compose(seed: int) -> Piece:
    chance = random.Random(seed)
    return Piece(chance.randrange(70, 171, 5), 110 * 2 ** (chance.randrange(36) / 12), chance.uniform(0.15, 0.9))


def play(piece: Piece) -> array[int]:
    """Return the samples: a decaying note with a little noise on every beat."""
    noise, loud = random.Random(piece.tempo), piece.level * FULL / 1.01
    note = array("h")
    for n in range(RATE * 60 // piece.tempo):
        tone = math.sin(2 * math.pi * piece.pitch * n / RATE) * math.exp(-9 * n / RATE)
        note.append(int(loud * (tone + noise.uniform(-0.01, 0.01))))
    beats = -(-RATE * SECONDS // len(note))
    return (note * beats)[: RATE * SECONDS]


def write(path: str, samples: array[int]) -> None:
    with wave.open(path, "wb") as file:
        file.setparams((1, 2, RATE, len(samples), "NONE", ""))
        file.writeframes(_little(samples).tobytes())


def read(path: str) -> array[int]:
    """Read the samples of a file that `write` made."""
    with wave.open(path, "rb") as file:
        samples = array("h", file.readframes(file.getnframes()))
    return _little(samples)


def seconds(path: str) -> float:
    with wave.open(path, "rb") as file:
        return file.getnframes() / file.getframerate()


def measure(samples: Sequence[int]) -> Measured:
    """Measure loudness, tempo and brightness."""
    power = [sum(value * value for value in samples[at : at + STEP]) for at in range(0, len(samples), STEP)]
    mean = math.sqrt(sum(power) / len(samples)) / FULL
    crossings = sum((one < 0) != (two < 0) for one, two in itertools.pairwise(samples))
    brightness = crossings / 2 / (len(samples) / RATE)
    return Measured(round(20 * math.log10(max(mean, 1e-9)), 1), _tempo(power), round(brightness, 1))


def _tempo(power: Sequence[int]) -> int:
    """Return the fastest tempo at which the rises of loudness correlate with themselves nearly best."""
    rises = [max(0, after - before) for before, after in itertools.pairwise(power)]
    a_minute = 60 * RATE / STEP
    lags = range(round(a_minute / FASTEST), round(a_minute / SLOWEST) + 1)
    correlation = {lag: sum(map(int.__mul__, rises, rises[lag:])) for lag in lags}
    best = max(correlation.values())
    first = next(lag for lag in lags if correlation[lag] >= 0.4 * best)
    near = max((first, first + 1, first + 2), key=lambda lag: correlation.get(lag, 0))
    return round(a_minute / near)


def _little(samples: array[int]) -> array[int]:
    """Convert samples to or from the little-endian order of a file."""
    if sys.byteorder == "big":
        samples.byteswap()
    return samples
