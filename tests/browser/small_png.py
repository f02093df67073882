"""Makes small PNG files of screenshots: with a palette, whose colors the browser finds."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Iterator

from playwright.sync_api import Page

QUANTIZE = """async (data) => {
  const image = new Image();
  image.src = "data:image/png;base64," + data;
  await image.decode();
  const canvas = new OffscreenCanvas(image.width, image.height);
  const context = canvas.getContext("2d");
  context.drawImage(image, 0, 0);
  const pixels = context.getImageData(0, 0, image.width, image.height).data;
  const counts = new Map();
  const keyOf = (at) => (pixels[at] << 16) | (pixels[at + 1] << 8) | pixels[at + 2];
  for (let at = 0; at < pixels.length; at += 4) counts.set(keyOf(at), (counts.get(keyOf(at)) ?? 0) + 1);
  // Similar colors count together, and the most frequent one stands for them: otherwise shades of gray take all places.
  const groups = new Map();
  for (const [key, count] of counts) {
    const group = groups.get(key & 0xf8f8f8) ?? { total: 0, key, most: 0 };
    group.total += count;
    if (count > group.most) [group.key, group.most] = [key, count];
    groups.set(key & 0xf8f8f8, group);
  }
  const largest = [...groups.values()].sort((one, other) => other.total - one.total).slice(0, 256);
  const palette = largest.map(({ key }) => key);
  const parts = palette.map((key) => [key >> 16, (key >> 8) & 255, key & 255]);
  const nearest = new Map(palette.map((key, index) => [key, index]));
  const find = (key) => {
    const [red, green, blue] = [key >> 16, (key >> 8) & 255, key & 255];
    let best = 0, least = Infinity;
    parts.forEach(([r, g, b], index) => {
      const distance = (r - red) ** 2 + (g - green) ** 2 + (b - blue) ** 2;
      if (distance < least) [best, least] = [index, distance];
    });
    return best;
  };
  let indexes = "";
  for (let at = 0; at < pixels.length; at += 4) {
    const key = keyOf(at);
    if (!nearest.has(key)) nearest.set(key, find(key));
    indexes += String.fromCharCode(nearest.get(key));
  }
  return { width: image.width, height: image.height, palette: parts.flat(), indexes: btoa(indexes) };
}"""


def make_small_png(page: Page, screenshot: bytes) -> bytes:
    """Return a screenshot as a PNG with at most 256 colors. `page` is a blank one of any browser."""
    found = page.evaluate(QUANTIZE, base64.b64encode(screenshot).decode())
    width, height, indexes = found["width"], found["height"], base64.b64decode(found["indexes"])
    rows = b"".join(b"\0" + indexes[row * width : (row + 1) * width] for row in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"PLTE", bytes(found["palette"])), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(part for kind, data in chunks for part in _chunk(kind, data))


def _chunk(kind: bytes, data: bytes) -> Iterator[bytes]:
    yield struct.pack(">I", len(data))
    yield kind + data
    yield struct.pack(">I", zlib.crc32(kind + data))
