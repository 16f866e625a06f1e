"""Faults of the layout of a view: what scrolls sideways, is cut off, or lies over something else."""

from playwright.sync_api import Locator

FAULTS = """root => {
  const place = root.getBoundingClientRect();
  const faults = [];
  const seen = each => {
    const { width, height } = each.getBoundingClientRect();
    return width > 1 && height > 1 && each.checkVisibility({ visibilityProperty: true })
      && each.closest('.pl-offscreen') === null;
  };
  const said = each => (each.getAttribute('aria-label') || each.textContent).trim().slice(0, 60);
  const clips = each => {
    const { overflowX, overflowY } = getComputedStyle(each);
    return overflowX !== 'visible' || overflowY !== 'visible';
  };
  const around = each => {
    const parents = [];
    for (let at = each.parentElement; at !== null && at !== root; at = at.parentElement) {
      parents.push(at);
    }
    return parents;
  };
  const scrolls = each => ['auto', 'scroll'].includes(getComputedStyle(each).overflowX);
  if (root.scrollWidth > root.clientWidth + 1) {
    faults.push(`the view scrolls sideways by ${root.scrollWidth - root.clientWidth} px`);
  }
  for (const each of root.querySelectorAll('button, select, input, h3, h4, th, strong, .pl-chip, .pl-status')) {
    if (!seen(each)) {
      continue;
    }
    const parents = around(each);
    const holder = parents.find(clips) ?? root;
    const right = Math.min(place.right, holder.getBoundingClientRect().right);
    if (!parents.some(scrolls) && each.getBoundingClientRect().right > right + 1) {
      faults.push(`"${said(each)}" is cut off at the right`);
    }
    const isText = !each.matches('select, input');
    if (isText && getComputedStyle(each).overflowX === 'hidden' && each.scrollWidth > each.clientWidth + 1) {
      faults.push(`"${said(each)}" is cut`);
    }
  }
  const texts = [];
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
    const holder = node.parentElement;
    if (node.data.trim() === '' || holder.closest('svg, select, style') !== null || !seen(holder)) {
      continue;
    }
    // Headings stay over rows that scroll.
    if ([holder, ...around(holder)].some(each => getComputedStyle(each).position === 'sticky')) {
      continue;
    }
    const holders = [holder, ...around(holder)].filter(clips).map(each => each.getBoundingClientRect());
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const box of range.getClientRects()) {
      const left = Math.max(box.left, ...holders.map(each => each.left));
      const right = Math.min(box.right, ...holders.map(each => each.right));
      const top = Math.max(box.top, ...holders.map(each => each.top));
      const bottom = Math.min(box.bottom, ...holders.map(each => each.bottom));
      if (right - left > 2 && bottom - top > 4) {
        texts.push({ left, right, top, bottom, node });
      }
    }
  }
  texts.sort((a, b) => a.top - b.top);
  texts.forEach((a, i) => {
    for (let j = i + 1; j < texts.length && texts[j].top < a.bottom - 5; j++) {
      const b = texts[j];
      const width = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const height = Math.min(a.bottom, b.bottom) - b.top;
      if (a.node !== b.node && width > 3 && height > 5) {
        faults.push(`"${a.node.data.trim()}" lies over "${b.node.data.trim()}"`);
      }
    }
  });
  return [...new Set(faults)];
}"""


def layout_faults(root: Locator) -> list[str]:
    """Sentences that say which controls, headings and texts of a view are cut off or overlap, none where it is right."""
    return root.evaluate(FAULTS)
