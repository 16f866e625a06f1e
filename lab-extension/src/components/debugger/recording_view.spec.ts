// @vitest-environment jsdom
import { beforeAll, expect, test } from 'vitest';
import type { RecordingRecord } from '../../generated/debugger';
import { installPage } from '../../testing/dom';
import { sample } from '../../testing/samples';
import { RecordingView } from './recording_view';

beforeAll(installPage);

function viewOf(): { view: RecordingView; text: (selector: string) => string[] } {
  const view = new RecordingView(sample<RecordingRecord>('recording'));
  const text = (selector: string): string[] =>
    [...view.element.querySelectorAll(selector)].map(each => each.textContent);
  return { view, text };
}

function button(view: RecordingView, name: string): HTMLButtonElement {
  return view.element.querySelector<HTMLButtonElement>(`button[aria-label="${name}"]`)!;
}

test('goes forwards and back, and no further than the run', () => {
  const { view, text } = viewOf();
  expect(text('.pl-recorded-current')).toEqual(['5layer(w, x)']);
  button(view, 'Stop before').click();
  expect(text('output')).toEqual(['1 of 3']);
  button(view, 'Next stop').click();
  expect(text('.pl-recorded-current')).toEqual(['2    h = x @ w']);
  expect(text('.pl-recorded-stack li')).toEqual([
    'Model.step  <b>model.py</b>:42',
    '<module>  In[3]:5',
    'layer  In[3]:2  (iteration 1 of 3)',
  ]);
  button(view, 'Next stop').click();
  button(view, 'Next stop').click();
  expect(text('output')).toEqual(['3 of 3']);
  expect(text('.pl-recorded-variables tr')).toContain('hf32[1,2] [[ 1. <i>-2</i>]]');
  expect(text('.pl-recorded-new')).toEqual(['hf32[1,2] [[ 1. <i>-2</i>]]']);
});

test('shows the lines and variables of the frame that is chosen', () => {
  const { view, text } = viewOf();
  view.go(2);
  view.element.querySelectorAll<HTMLButtonElement>('.pl-recorded-stack button')[1]!.click();
  expect(text('.pl-recorded-current')).toEqual(['5layer(w, x)']);
  expect(text('.pl-recorded-variables th')).toEqual(['x', 'w']);
  view.element.querySelector<HTMLButtonElement>('.pl-recorded-stack button')!.click();
  expect(text('.pl-recorded-source')).toEqual(['The text of this file was not there.']);
  expect(text('.pl-recorded-variables')).toEqual(['No variable has a value here.']);
});

test('says where a recording ends before the run', () => {
  const { text } = viewOf();
  expect(text('.pl-chip')).toEqual(['3 stops', 'cut: the run went on']);
});
