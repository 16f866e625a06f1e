"""How fast is the viewer? Opens sample programs in headless Chromium and prints one record.

Needs the built viewer (`npm run build:standalone` in lab-extension), playwright and a Chromium:
`python benchmarks/viewer_speed.py [--browser /usr/bin/chromium]`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import BrowserContext, Page, Route, sync_playwright

ROOT = Path(__file__).parents[1]
VIEWER = ROOT / "viz" / "pellucid_viz" / "static" / "viewer.js"
ORIGIN = "http://viewer.invalid/"
QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PAGE = """<!DOCTYPE html><meta charset="utf-8"><style>body { margin: 0 }</style>
<div id="host" style="height: 100vh"></div>
<script type="module">
  import { mount, options } from './viewer.js';
  const frame = () => new Promise(resolve => requestAnimationFrame(() => setTimeout(resolve)));
  window.open_record = async text => {
    const start = performance.now();
    window.mounted = mount(document.getElementById('host'), text, options);
    await window.mounted.view().ready;
    await frame();
    return performance.now() - start;
  };
  window.frames_while = async (seconds, step) => {
    const times = [];
    const end = performance.now() + 1000 * seconds;
    let last = performance.now();
    for (let i = 0; performance.now() < end; i++) {
      step(i);
      await new Promise(requestAnimationFrame);
      times.push(performance.now() - last);
      last = performance.now();
    }
    return times;
  };
  window.frame = frame;
  window.is_ready = true;
</script>"""


def serve(samples: Path):
    def answer(route: Route) -> None:
        name = route.request.url.removeprefix(ORIGIN)
        if name == "":
            route.fulfill(body=PAGE, content_type="text/html")
        elif name == "viewer.js":
            route.fulfill(path=VIEWER, content_type="text/javascript")
        else:
            route.fulfill(path=samples / name, content_type="application/json")

    return answer


def fresh(page: Page) -> None:
    page.goto(ORIGIN)
    page.wait_for_function("window.is_ready === true")


def open_time(page: Page, sample: str) -> float:
    """Milliseconds from the record's text to the first painted frame, parsing included."""
    fresh(page)
    return page.evaluate(
        """async name => window.open_record(await (await fetch(name)).text())""", f"{sample}.json"
    )


def expand_times(page: Page) -> list[float]:
    """Milliseconds to open each closed group in turn, until the new layout is painted."""
    return page.evaluate(
        """async () => {
          const { model } = window.mounted.view();
          const times = [];
          for (let i = 0; i < 12; i++) {
            const box = model.boxes.find(each => each.isExpandable && !each.isOpen);
            if (box === undefined) break;
            const start = performance.now();
            await model.toggle(box);
            await window.frame();
            times.push(performance.now() - start);
          }
          return times;
        }"""
    )


def open_flat(page: Page, sample: str) -> dict[str, float]:
    """All equations in one level, nothing folded: the largest number of boxes in sight."""
    open_time(page, sample)
    return page.evaluate(
        """async () => {
          const { model, graph } = window.mounted.view();
          const start = performance.now();
          await model.regroup('none', false);
          graph.fitWhole();
          await window.frame();
          return { milliseconds: performance.now() - start, boxes: model.boxes.length };
        }"""
    )


MOVE = """async zoom => {
  const { graph } = window.mounted.view();
  const canvas = graph.element.querySelector('canvas');
  const { left, top, width, height } = canvas.getBoundingClientRect();
  const at = (x, y) => ({ clientX: left + x, clientY: top + y, bubbles: true, pointerId: 1, buttons: 1 });
  canvas.setPointerCapture = () => undefined;
  canvas.focus();
  const paints = [];
  if (!zoom) canvas.dispatchEvent(new PointerEvent('pointerdown', at(width / 2, height / 2)));
  const times = await window.frames_while(2, i => {
    const swing = Math.sin(i / 12);
    if (zoom) {
      canvas.dispatchEvent(new WheelEvent('wheel',
        { ...at(width / 2, height / 2), deltaY: 40 * swing, cancelable: true }));
    } else {
      canvas.dispatchEvent(new PointerEvent('pointermove',
        at(width / 2 + 90 * swing, height / 2 + 60 * Math.cos(i / 9))));
    }
    paints.push(graph.lastPaint);
  });
  if (!zoom) canvas.dispatchEvent(new PointerEvent('pointerup', at(width / 2, height / 2)));
  return { times, paints };
}"""

HOVER = """async () => {
  const view = window.mounted.view();
  const times = [];
  const count = view.program.equationCount;
  for (let i = 0; i < 20; i++) {
    const start = performance.now();
    view.highlight([[Math.floor((i + 0.5) * count / 20)]]);
    await window.frame();
    times.push(performance.now() - start);
  }
  return times;
}"""


def frames(page: Page, *, zoom: bool) -> dict[str, float]:
    result = page.evaluate(MOVE, zoom)
    return {
        "frames_per_second": round(1000 / statistics.mean(result["times"]), 1),
        "paint_ms": round(statistics.median(result["paints"]), 2),
    }


def measure(page: Page, samples: Path) -> dict[str, object]:
    record: dict[str, object] = {
        "viewer_bytes": VIEWER.stat().st_size,
        "record_bytes_10k": (samples / "equations_10k.json").stat().st_size,
    }
    open_time(page, "mlp")  # the first page also starts the browser's own parts
    record["open_10k_ms"] = round(min(open_time(page, "equations_10k") for _ in range(3)), 1)
    times = expand_times(page)
    record["expand_10k_ms"] = {
        "median": round(statistics.median(times), 1),
        "worst": round(max(times), 1),
    }
    record["hover_10k_ms"] = round(statistics.median(page.evaluate(HOVER)), 1)
    record["open_10k_unscoped_ms"] = round(open_time(page, "equations_10k_unscoped"), 1)
    record["sharded_function_4096_ms"] = round(
        min(open_time(page, "sharded_function_4096") for _ in range(3)), 1
    )
    record["open_100k_ms"] = round(min(open_time(page, "equations_100k") for _ in range(2)), 1)
    record["hover_100k_ms"] = round(statistics.median(page.evaluate(HOVER)), 1)
    flat = open_flat(page, "wide")
    record["flat_layout_ms"] = round(flat["milliseconds"], 1)
    record["flat_boxes"] = flat["boxes"]
    record["flat_pan"] = frames(page, zoom=False)
    record["flat_zoom"] = frames(page, zoom=True)
    page.evaluate("window.mounted.view().graph.zoomBy(40)")
    record["flat_near_pan"] = frames(page, zoom=False)
    record["sharding_4096_ms"] = round(min(open_time(page, "sharding_4096") for _ in range(3)), 1)
    return record


def measure_samples(browser: BrowserContext, folder: Path) -> dict[str, object]:
    """All measurements, on samples that are written into `folder`."""
    module = "tests.introspect.sample_records"
    names = ["mlp", "equations_10k", "equations_10k_unscoped", "equations_100k", "wide"]
    names += ["sharding_4096", "sharded_function_4096"]
    subprocess.run([sys.executable, "-m", module, str(folder), *names], check=True, cwd=ROOT)
    page = browser.new_page()
    page.route(f"{ORIGIN}**", serve(folder))
    return measure(page, folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--browser", default="/usr/bin/chromium")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch_persistent_context(
            str(Path(folder) / "profile"),
            executable_path=arguments.browser,
            headless=True,
            args=QUIET,
            viewport={"width": 1400, "height": 900},
        )
        print(json.dumps(measure_samples(browser, Path(folder) / "samples"), indent=2))
        browser.close()


if __name__ == "__main__":
    main()
