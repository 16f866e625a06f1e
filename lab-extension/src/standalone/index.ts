/** Entry point for pages without the extension: self-contained HTML, and anywidget. */

import { ProgramExplorer } from '../components/explorer/program_explorer';
import { WhatIfView } from '../components/sharding/what_if_view';
import { growing, mount, type ViewOptions } from '../components/view';
import type { NotebookLines } from '../components/source_link';
import { GO_EVENT, STATE_EVENT, type PlaceQuestion } from '../records/cell_places';
import { unpacked } from '../records/packing';
import LayoutWorker from '../layout/worker?worker&inline';

const options: ViewOptions = { makeWorker: () => new LayoutWorker() };

/** Lines of the notebook around a widget, accessed through the extension; absent without it. */
const notebook: NotebookLines = {
  go: place => void document.dispatchEvent(new CustomEvent(GO_EVENT, { detail: place })),
  stateOf: place => {
    const detail: PlaceQuestion = { place, state: 'absent' };
    document.dispatchEvent(new CustomEvent(STATE_EVENT, { detail }));
    return detail.state;
  },
};

/** Distance in pixels outside the visible part of the page at which a view is already drawn. */
const DRAW_AHEAD_PIXELS = 600;

/** Displays the record in the `application/json` script inside `host`. */
async function start(host: HTMLElement): Promise<void> {
  const data = host.querySelector<HTMLScriptElement>('script[type="application/json"]');
  const text = host.querySelector<HTMLElement>('.pellucid-static');
  const place = host.querySelector<HTMLElement>('.pellucid-place');
  if (data === null || place === null) {
    return;
  }
  const record = await unpacked(data.text, data.dataset['encoding'] === 'gzip');
  place.hidden = false;
  // On a page of its own, the view fills the window.
  const most = place.style.height.endsWith('px') ? parseFloat(place.style.height) : null;
  const mounted = mount(place, record, {
    ...options,
    ...(most === null ? {} : { onHeight: growing(place, most) }),
  });
  // The static form is for pages without scripts; here it would be a duplicate.
  if (text !== null) {
    text.hidden = mounted.view() !== null;
  }
}

const nearby = new IntersectionObserver(
  entries => {
    for (const { target, isIntersecting } of entries) {
      if (isIntersecting) {
        nearby.unobserve(target);
        // If this fails, the static form is still there.
        start(target as HTMLElement).catch((error: unknown) => console.error(error));
      }
    }
  },
  { rootMargin: `${DRAW_AHEAD_PIXELS}px` },
);
for (const host of document.querySelectorAll<HTMLElement>('.pellucid-view:not([data-started])')) {
  host.dataset['started'] = '';
  nearby.observe(host);
}

interface WidgetModel {
  get(name: string): unknown;
  set(name: string, value: unknown): void;
  save_changes(): void;
  on(event: string, listener: () => void): void;
  off(event: string, listener: () => void): void;
}

/**
 * Renders a widget of anywidget. Trait `record` is replaced as a whole; `selected` are the selected
 * equations;
 * `request` is the placement that the user requests, and `answered` the number of answered
 * requests.
 */
function render({ model, el }: { model: WidgetModel; el: HTMLElement }): () => void {
  const host = document.createElement('div');
  const most = Number(model.get('height')) || 560;
  host.style.height = `${most}px`;
  el.append(host);
  const text = model.get('text');
  let requests = 0;
  const mounted = mount(host, model.get('record'), {
    ...options,
    notebook,
    text: typeof text === 'string' ? text : '',
    onHeight: growing(host, most),
    onSelect: (_, equations) => {
      model.set('selected', Array.from(equations));
      model.save_changes();
    },
    onPlacement: request => {
      // Requesting the same placement again must be a new request.
      requests++;
      model.set('request', { ...request, number: requests });
      model.save_changes();
    },
  });
  const answer = (): void => {
    const view = mounted.view();
    if (view instanceof WhatIfView) {
      view.answered();
    }
  };
  const update = (): void => mounted.show(model.get('record'));
  const select = (): void => {
    const view = mounted.view();
    const [equation] = model.get('selected') as number[];
    if (view instanceof ProgramExplorer && equation !== undefined) {
      void view.goTo(equation);
    }
  };
  model.on('change:record', update);
  model.on('change:selected', select);
  model.on('change:answered', answer);
  return () => {
    model.off('change:record', update);
    model.off('change:selected', select);
    model.off('change:answered', answer);
    mounted.dispose();
  };
}

export { mount, options };
export default { render };
