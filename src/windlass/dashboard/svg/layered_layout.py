"""Lay out a small graph in layers: every edge goes down, boxes never overlap, and few edges cross.

The usual four steps: layers by longest path, points for the layers that a long edge passes, an order within each layer
by the mean of the neighbors, and coordinates that keep edges straight. All steps take time that is about linear in the
boxes, the edges and the layers that edges pass.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right, insort
from collections.abc import Sequence

from msgspec import Struct

GAP_X, GAP_Y = 24.0, 44.0
"""Between boxes of one layer, and between layers."""
LANE = 14.0
"""The room that an edge takes in the layers that it passes."""
SWEEPS = 12
STRAIGHT = 4.0
"""How much more an edge in passing counts than a box, so that long edges are straight."""


class Box(Struct, frozen=True, kw_only=True):
    """Where a node is drawn."""

    x: float
    y: float
    width: float
    height: float
    rank: int


class Layout(Struct, frozen=True, kw_only=True):
    """Where everything is drawn."""

    boxes: list[Box]
    edges: list[list[tuple[float, float]]]
    """The points of each edge: from below its upper box, through the layers between, to above its lower box."""
    width: float
    height: float
    crossings: int


def find_ranks(nodes: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Return the layer of each node: below all nodes that lead to it. Raise ValueError if the edges form a cycle."""
    below: list[list[int]] = [[] for _ in range(nodes)]
    left = [0] * nodes
    for upper, lower in edges:
        below[upper].append(lower)
        left[lower] += 1
    sources = [node for node in range(nodes) if not left[node]]
    ranks, order = [0] * nodes, list(sources)
    for node in order:  # It grows during the loop.
        for lower in below[node]:
            ranks[lower] = max(ranks[lower], ranks[node] + 1)
            left[lower] -= 1
            if not left[lower]:
                order.append(lower)
    if len(order) < nodes:
        raise ValueError("the edges form a cycle")
    for node in sources:  # A node without prerequisites moves down to those that wait for it.
        if below[node]:
            ranks[node] = min(ranks[lower] for lower in below[node]) - 1
    return ranks


def lay_out(sizes: Sequence[tuple[float, float]], edges: Sequence[tuple[int, int]]) -> Layout:
    """Lay out nodes of these widths and heights."""
    if not sizes:
        return Layout(boxes=[], edges=[], width=0, height=0, crossings=0)
    layers = _Layers(sizes, edges)
    crossings = layers.order()
    xs = layers.place()
    return layers.build(xs, crossings)


class _Layers:
    """The graph with points for edges that pass a layer. Those are numbered after the nodes."""

    def __init__(self, sizes: Sequence[tuple[float, float]], edges: Sequence[tuple[int, int]]) -> None:
        self._sizes = sizes
        self.ranks = find_ranks(len(sizes), edges)
        self.widths = [width for width, _ in sizes]
        self.paths: list[list[int]] = []
        for upper, lower in edges:
            path = [upper]
            for rank in range(self.ranks[upper] + 1, self.ranks[lower]):
                path.append(len(self.widths))
                self.widths.append(LANE)
                self.ranks.append(rank)
            self.paths.append([*path, lower])
        count = len(self.widths)
        self.above: list[list[int]] = [[] for _ in range(count)]
        self.below: list[list[int]] = [[] for _ in range(count)]
        for path in self.paths:
            for upper, lower in itertools.pairwise(path):
                self.below[upper].append(lower)
                self.above[lower].append(upper)
        self.layers: list[list[int]] = [[] for _ in range(max(self.ranks) + 1)]
        for node in self._walk():
            self.layers[self.ranks[node]].append(node)

    def _walk(self) -> list[int]:
        """Return all nodes, depth first from the top, so that the first order is already good for trees."""
        found: list[int] = []
        seen = bytearray(len(self.widths))
        for top in sorted(range(len(self._sizes)), key=lambda node: (self.ranks[node], node)):
            stack = [top]
            while stack:
                node = stack.pop()
                if not seen[node]:
                    seen[node] = True
                    found.append(node)
                    stack += reversed(self.below[node])
        return found

    def order(self) -> int:
        """Order each layer so that few edges cross. Return how many do."""
        best, fewest = [list(layer) for layer in self.layers], self._count_crossings()
        for sweep in range(SWEEPS):
            if not fewest:
                break
            down = sweep % 2 == 0
            ranks = range(1, len(self.layers)) if down else range(len(self.layers) - 2, -1, -1)
            for rank in ranks:
                self._sort_layer(rank, self.above if down else self.below, rank - 1 if down else rank + 1)
            crossings = self._count_crossings()
            if crossings < fewest:
                best, fewest = [list(layer) for layer in self.layers], crossings
        self.layers = best
        return fewest

    def _sort_layer(self, rank: int, neighbors: Sequence[Sequence[int]], fixed: int) -> None:
        places = {node: place for place, node in enumerate(self.layers[fixed])}
        own = {node: place for place, node in enumerate(self.layers[rank])}

        def mean(node: int) -> float:
            found = [places[each] for each in neighbors[node]]
            # A node without neighbors keeps its relative place.
            return sum(found) / len(found) if found else own[node] * len(places) / max(1, len(own))

        self.layers[rank].sort(key=lambda node: (mean(node), own[node]))

    def _count_crossings(self) -> int:
        total = 0
        for upper, lower in zip(self.layers, self.layers[1:], strict=False):
            places = {node: place for place, node in enumerate(lower)}
            ends: list[int] = []
            for node in upper:
                targets = sorted(places[each] for each in self.below[node])
                total += sum(len(ends) - bisect_right(ends, target) for target in targets)
                for target in targets:
                    insort(ends, target)
        return total

    def place(self) -> list[float]:
        """Return the center of each node: as near to its neighbors as the order and the gaps allow."""
        xs = [0.0] * len(self.widths)
        for layer in self.layers:
            self._spread(layer, dict.fromkeys(layer, 0.0), xs)
        for sweep in range(SWEEPS):
            down = sweep % 2 == 0
            neighbors = self.above if down else self.below
            for layer in self.layers if down else reversed(self.layers):
                wishes = {
                    node: sum(xs[each] for each in neighbors[node]) / len(neighbors[node])
                    if neighbors[node]
                    else xs[node]
                    for node in layer
                }
                self._spread(layer, wishes, xs)
        return xs

    def _spread(self, layer: Sequence[int], wishes: dict[int, float], xs: list[float]) -> None:
        """Place a layer as near to the wishes as possible, in its order and without overlap (isotonic regression)."""
        offsets: list[float] = []
        at = 0.0
        for index, node in enumerate(layer):
            if index:
                at += (self.widths[layer[index - 1]] + self.widths[node]) / 2 + GAP_X
            offsets.append(at)
        blocks: list[tuple[float, float, int]] = []  # The mean, weight and number of nodes that move together.
        for node, offset in zip(layer, offsets, strict=True):
            mean, weight, count = wishes[node] - offset, STRAIGHT if node >= len(self._sizes) else 1.0, 1
            while blocks and blocks[-1][0] > mean:
                other, heavy, more = blocks.pop()
                mean = (mean * weight + other * heavy) / (weight + heavy)
                weight, count = weight + heavy, count + more
            blocks.append((mean, weight, count))
        index = 0
        for mean, _, count in blocks:
            for node, offset in zip(layer[index : index + count], offsets[index : index + count], strict=True):
                xs[node] = mean + offset
            index += count

    def build(self, xs: Sequence[float], crossings: int) -> Layout:
        """Return boxes and edges in coordinates that start at 0."""
        left = min(x - width / 2 for x, width in zip(xs, self.widths, strict=True))
        right = max(x + width / 2 for x, width in zip(xs, self.widths, strict=True))
        tops: list[float] = []
        top = 0.0
        for layer in self.layers:
            tops.append(top)
            top += self._height(layer) + GAP_Y
        boxes = [
            Box(
                x=xs[node] - left - width / 2,
                y=tops[self.ranks[node]],
                width=width,
                height=height,
                rank=self.ranks[node],
            )
            for node, (width, height) in enumerate(self._sizes)
        ]
        edges = [self._route(path, boxes, xs, left, tops) for path in self.paths]
        return Layout(boxes=boxes, edges=edges, width=right - left, height=top - GAP_Y, crossings=crossings)

    def _height(self, layer: Sequence[int]) -> float:
        return max((self._sizes[node][1] for node in layer if node < len(self._sizes)), default=0.0)

    def _route(
        self, path: Sequence[int], boxes: Sequence[Box], xs: Sequence[float], left: float, tops: Sequence[float]
    ) -> list[tuple[float, float]]:
        first, last = boxes[path[0]], boxes[path[-1]]
        points = [(first.x + first.width / 2, first.y + first.height)]
        for node in path[1:-1]:
            top = tops[self.ranks[node]]
            points += [(xs[node] - left, top), (xs[node] - left, top + self._height(self.layers[self.ranks[node]]))]
        return [*points, (last.x + last.width / 2, last.y)]


def drop_implied(
    nodes: int, edges: Sequence[tuple[int, int]], keep: frozenset[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Return the edges without those that a longer way implies, each once. Those in `keep` stay."""
    unique = sorted(set(edges))
    below: list[list[int]] = [[] for _ in range(nodes)]
    for upper, lower in unique:
        below[upper].append(lower)
    ranks = find_ranks(nodes, unique)
    reach = [0] * nodes  # A bit for each node that is below.
    found: list[tuple[int, int]] = []
    for node in sorted(range(nodes), key=lambda each: -ranks[each]):
        seen = 0
        for lower in sorted(below[node], key=lambda each: ranks[each]):
            if not seen >> lower & 1 or (node, lower) in keep:
                found.append((node, lower))
            seen |= reach[lower] | 1 << lower
        reach[node] = seen
    return sorted(found)
