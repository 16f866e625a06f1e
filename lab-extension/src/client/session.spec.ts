import type { Kernel } from '@jupyterlab/services';
import { expect, test, vi } from 'vitest';
import type { State } from '../generated/kernel';
import type { Connection } from '../panels/panel';
import { SessionClient } from './session';

/** A kernel connection that keeps what is sent through its comm. */
function fakeKernel() {
  const sent: unknown[] = [];
  const comm = {
    open: vi.fn(),
    send: (data: unknown) => sent.push(data),
  } as unknown as Kernel.IComm;
  const signal = { connect: vi.fn(), disconnect: vi.fn() };
  const kernel = {
    statusChanged: signal,
    disposed: signal,
    registerCommTarget: vi.fn(),
    createComm: () => comm,
  } as unknown as Kernel.IKernelConnection;
  const receive = (data: unknown): void => void comm.onMsg({ content: { data } } as never);
  return { kernel, sent, receive };
}

const programs = { panel: 'programs', kind: 'state', functions: null } as unknown as State;
const devices = { panel: 'devices', kind: 'state', array_count: 0 } as unknown as State;

test('a client asks for the states of the panels in sight, once for each change', () => {
  const { kernel, sent } = fakeKernel();
  const client = new SessionClient(kernel, 'Pellucid');
  client.follow(['programs']);
  client.follow(['programs']);
  client.follow([]);
  expect(sent).toEqual([
    { kind: 'follow', panels: [] },
    { kind: 'follow', panels: ['programs'] },
    { kind: 'follow', panels: [] },
  ]);
});

test('states of panels come one by one, and what is compiled beside them', () => {
  const { kernel, receive } = fakeKernel();
  const client = new SessionClient(kernel, 'Pellucid');
  const step = { kind: 'progress', function: 'step' };
  const seen: Connection[] = [];
  client.changed.connect((_, connection) => seen.push(connection));
  receive({ kind: 'progress', function: null });
  receive(programs);
  receive(step);
  receive(devices);
  const shown = seen.map(each =>
    each.status === 'ready' ? [[...each.states.keys()], each.busy] : each.status,
  );
  expect(shown).toEqual([
    [[], null],
    [['programs'], null],
    [['programs'], step],
    [['programs', 'devices'], step],
  ]);
});
