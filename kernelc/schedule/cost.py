"""Tiles by an analytic cost in whole half cycles: the same choice on every machine that compiles.

Source: measured on one Zen 4 core with the templates of this compiler (median error 0.7-5.4 %); judged by regret, since
most tiles tie. Equal costs take the earliest candidate.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from kernelc.schedule.split import balanced, powers

LATENCY = 8
"""Half cycles from one fused multiply-add to the next on the same accumulator."""
TILE_OVERHEAD = 40
LOOP_EXIT = 30
"""A mispredicted branch at the end of a reduction loop."""
WIDEST = 16
"""Most columns of a tile."""
LEAST_LANES = 4
"""Channels of a block where registers are narrower: measured on a scalar machine (Hexagon), dense loops do 1.83
multiply-adds in a packet with blocks of 4, 1.7 with 2 and with 1, because a block's weights share one address."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What schedules need of a target: f32 lanes of a channel block, how many blocks registers hold, bytes of caches.

    `split` registers hold one block and `ports` of them are multiplied per cycle. `broadcast` is where a multiply-add
    takes a factor from that all lanes share (see `toolchains.target.Vector`).
    """

    lanes: int
    registers: int
    l2_bytes: int
    split: int = 1
    ports: int = 2
    broadcast: str = "register"
    l1_bytes: int = 0

    @property
    def multiply(self) -> int:
        """Half cycles of one multiply-add of a block. One of 64 bytes is two halves on the reference core."""
        return max(1, self.lanes // 8, 2 * self.split // self.ports)

    def blocked(self, lanes: int) -> Machine:
        """The machine for blocks of `lanes` channels; itself where channels lie apart (1)."""
        if lanes in (1, self.lanes):
            return self
        total, register = self.registers * self.split, max(1, self.lanes // self.split)
        split = max(1, lanes // register)
        return replace(self, lanes=lanes, split=split, registers=max(1, total // split))

    @property
    def one_port(self) -> bool:
        """Whether one multiply-add and one load start per cycle, in order: no load comes for free."""
        return self.ports == 1

    @property
    def early_loads(self) -> int:
        """Factors in flight for one row of accumulators: in-order cores must load them before they are needed."""
        return 6 if self.one_port else 1

    def loads(self, blocks: int, columns: int) -> int:
        """Half cycles of the loads of one step: weights of `blocks`, one factor for each of `columns`."""
        if self.broadcast == "memory":  # the factor is read again for each block, but folded into the multiply-add
            return 2 * blocks + columns
        return (blocks * self.split + columns) * 2 // self.ports


@dataclass(frozen=True, slots=True)
class Tail:
    """Tiles of a last block, few of whose channels count: one block of fewer `lanes`, `columns` wide."""

    lanes: int
    columns: int


@dataclass(frozen=True, slots=True)
class ContractionTile:
    """Blocks x columns of one tile, and the height and width that the image is seen with; `tail` of the last block."""

    blocks: int
    columns: int
    height: int
    width: int
    tail: Tail | None = None


def fits(machine: Machine, blocks: int, columns: int) -> bool:
    """Whether a tile's accumulators and operands stay in registers; beyond this LLVM spills (2-10 times slower)."""
    return held(machine, blocks, columns) <= machine.registers


def held(machine: Machine, blocks: int, columns: int) -> int:
    """Registers that a tile asks for: where it was measured to spill, this passes the machine's number."""
    if machine.broadcast != "register":
        return blocks * columns + blocks + columns - 2
    broadcasts = columns if blocks > 1 else min(columns, machine.early_loads)
    return blocks * columns + broadcasts + 1


def step_cost(machine: Machine, blocks: int, columns: int) -> int:
    """Half cycles of one step of a reduction loop: a multiply-add of each of `blocks` x `columns` accumulators."""
    return max(machine.multiply * blocks * columns, LATENCY, machine.loads(blocks, columns))


def contraction_cost(machine: Machine, steps: int, exits: int, blocks: int, columns: int) -> int:
    """Half cycles of one tile: `steps` multiply-adds per accumulator, `exits` reduction loops left."""
    return steps * step_cost(machine, blocks, columns) + 4 * blocks * columns + TILE_OVERHEAD + LOOP_EXIT * exits


def narrowed(machine: Machine, channels: int) -> Machine:
    """The machine with blocks of half the lanes, again while they hold `channels` and are multiplied faster."""
    while 2 * channels <= machine.lanes and machine.lanes > 1:
        half = _half(machine)
        if half.multiply >= machine.multiply:
            break
        machine = half
    return machine


def lanes_of(machine: Machine, lanes: int) -> Machine:
    """The machine as it works on vectors of `lanes`, no more than its own: with halves of its blocks, and again."""
    while machine.lanes > max(1, lanes) and machine.lanes > 1:
        machine = _half(machine)
    return machine


def _half(machine: Machine) -> Machine:
    split = max(1, machine.split // 2)
    return replace(machine, lanes=machine.lanes // 2, split=split, registers=machine.registers * machine.split // split)


def plain_cut(
    machine: Machine, *, steps: int, exits: int, channels: int, images: Sequence[tuple[int, int]]
) -> ContractionTile:
    """The cheapest tile where channels lie apart: vectors are columns of a row, and weights are what lanes share.

    `blocks` of the tile are channels.
    """
    found = [
        ContractionTile(blocks, vectors * machine.lanes, height, width)
        for height, width in images
        for vectors in (1, 2, 4, 8)
        for blocks in range(min(channels, WIDEST), 0, -1)
        if fits(machine, vectors, blocks) and (vectors == 1 or width > (vectors - 1) * machine.lanes)
    ]
    return min(found, key=lambda tile: plain_cost(machine, steps, exits, channels, tile))


def plain_cost(machine: Machine, steps: int, exits: int, channels: int, tile: ContractionTile) -> int:
    """Half cycles of `channels` plain output channels over the whole image in a tile of `plain_cut`."""
    return tile.height * sum(
        down.count * across.count * contraction_cost(machine, steps, exits, vectors_of(machine, across.size), down.size)
        for down in balanced(channels, tile.blocks)
        for across in powers(tile.width, tile.columns)
    )


def vectors_of(machine: Machine, columns: int) -> int:
    """Vectors that columns of a plain row take."""
    return -(-columns // machine.lanes)


def contraction_cut(
    machine: Machine, *, steps: int, exits: int, channels: int, images: Sequence[tuple[int, int]]
) -> ContractionTile:
    """The cheapest tiles for `channels` output channels: all blocks alike, or a last block of fewer lanes."""
    full, rest = divmod(channels, machine.lanes)
    whole = contraction_tile(machine, steps=steps, exits=exits, blocks=full + (rest > 0), images=images)
    narrow = narrowed(machine, rest) if rest else machine
    if narrow == machine:
        return whole
    if full:
        images = [(whole.height, whole.width)]
    last = contraction_tile(narrow, steps=steps, exits=exits, blocks=1, images=images)
    size = (last.height, last.width)
    main = contraction_tile(machine, steps=steps, exits=exits, blocks=full, images=[size]) if full else last
    found = replace(main, tail=Tail(narrow.lanes, last.columns))
    split, alike = (cut_cost(machine, steps, exits, channels, one) for one in (found, whole))
    return found if split < alike else whole


def cut_cost(machine: Machine, steps: int, exits: int, channels: int, tile: ContractionTile) -> int:
    """Half cycles of `channels` output channels over the whole image in a tile of `contraction_cut`."""
    full, rest = divmod(channels, machine.lanes)
    if tile.tail is None:
        return _image_cost(machine, steps, exits, full + (rest > 0), tile)
    last = ContractionTile(1, tile.tail.columns, tile.height, tile.width)
    cost = _image_cost(narrowed(machine, rest), steps, exits, 1, last)
    return cost + (_image_cost(machine, steps, exits, full, tile) if full else 0)


def contraction_tile(
    machine: Machine, *, steps: int, exits: int, blocks: int, images: Iterable[tuple[int, int]]
) -> ContractionTile:
    """The cheapest tile for `blocks` output blocks over any of the `images` (height, width), first one preferred.

    One of 1 x 1 is taken though it spills where not even that fits: blocks wider than the target's own may pass all its
    registers. The choice of layouts never takes them to be faster.
    """
    best: tuple[int, ContractionTile] | None = None
    panel = 4 * machine.lanes * steps
    most = max(1, machine.l2_bytes // panel) if machine.l2_bytes else blocks
    for height, width in images:
        for tile_blocks in range(min(blocks, 6, most), 0, -1):
            for columns in range(min(width, WIDEST), 0, -1):
                if not fits(machine, tile_blocks, columns) and (tile_blocks, columns) != (1, 1):
                    continue
                tile = ContractionTile(tile_blocks, columns, height, width)
                cost = _image_cost(machine, steps, exits, blocks, tile)
                if best is None or cost < best[0]:
                    best = cost, tile
    assert best is not None  # 1 x 1 is among them
    return best[1]


def _image_cost(machine: Machine, steps: int, exits: int, blocks: int, tile: ContractionTile) -> int:
    """Half cycles of `blocks` output blocks over the whole image in this tile."""
    return tile.height * sum(
        down.count * across.count * contraction_cost(machine, steps, exits, down.size, across.size)
        for down in balanced(blocks, tile.blocks)
        for across in balanced(tile.width, tile.columns)
    )


def depthwise_columns(machine: Machine, *, taps: int, kernel_width: int, stride: int, width: int) -> int:
    """Columns of a depthwise tile. While inputs and accumulators fit the registers, LLVM loads each input only once."""

    def cost(columns: int) -> int:
        total = 0
        for run in balanced(width, columns):
            inputs = (run.size - 1) * stride + kernel_width
            reloads = 0 if run.size + inputs <= machine.registers - 4 else taps * run.size // reload
            total += run.count * (taps * max(run.size, 4) + 2 * run.size + 20 + reloads)
        return total

    most = machine.registers // 2
    reload, sizes = (2, (8, 7, 10, 14, 6, 5, 4)) if machine.one_port else (8, (8, 7, 10, 14))
    candidates = [columns for columns in sizes if columns <= most] or [max(1, most)]
    return min(candidates, key=cost)


def stream_columns(machine: Machine, lanes: int) -> int:
    """Columns of a tile of an operation that only streams: enough to hide latency, few enough to need no spill.

    `lanes` are those of the value that it writes: of one, the columns of a row are what fills vectors.
    """
    if lanes == 1:
        return machine.lanes * max(1, machine.registers // 8)
    return max(1, machine.blocked(lanes).registers // 4)
