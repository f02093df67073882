"""Progress, logs, a soft time limit and cancellation, seen from the outside.

Run it: python examples/progress.py
"""

import time

import windlass

app = windlass.App()


@app.task(timeout="1m")
def convert(frames: int) -> int:
    """Convert frame by frame, report progress, and stop when asked to."""
    ctx = windlass.current()
    for frame in range(frames):
        if ctx.cancelled:
            ctx.log.info("stopped at frame %d", frame)
            return frame
        ctx.progress(frame / frames, f"frame {frame}")
        time.sleep(0.01)
    return frames


if __name__ == "__main__":
    with app.worker(size=1):
        short = convert.enqueue(20)
        print("converted", short.result(timeout=30), "frames")
        endless = convert.enqueue(1_000_000)
        while endless.state != windlass.State.LEASED:
            time.sleep(0.01)
        endless.cancel()
        print("the second one is", endless.wait(timeout=30).value)
