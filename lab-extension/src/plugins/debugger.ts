import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { showErrorMessage } from '@jupyterlab/apputils';
import { IDebugger, IDebuggerHandler, IDebuggerSidebar, type Debugger } from '@jupyterlab/debugger';
import { CommandToolbarButton, LabIcon, PanelWithToolbar } from '@jupyterlab/ui-components';
import { Widget } from '@lumino/widgets';

import { inTurn } from '../components/debugger/in_turn';
import {
  StoppedProgram,
  type ListedBreakpoint,
  type Standing,
  type StopSettings,
} from '../components/debugger/stopped_program';
import type { VariableFigure } from '../components/debugger/variables_pane';
import { lineIcon } from './icons';
import { makeLayoutWorker } from './layout_worker';
import { STOP_COMMAND } from './shown_records';

/** Thread number of programs, besides those of Python threads. */
const PROGRAM_THREAD = 1 << 20;
const STOPPED = '[data-jp-debugger-stopped-threads="true"]';
/** Delay after an edit, until the notebook has sent its breakpoints. */
const BREAKPOINTS_DELAY_MILLISECONDS = 1500;
/** Time limit of a step after which the section is cleared until the step ends. */
const STEP_TIMEOUT_MILLISECONDS = 1000;

/**
 * Time limit for updates of the debugger after a change of notebook; a terminating kernel may never
 * answer.
 */
const UPDATE_TIMEOUT_MILLISECONDS = 5000;

/** Time limit for starting the debugger; it takes a second, or longer if the kernel is busy. */
const START_TIMEOUT_MILLISECONDS = 20_000;
const START_CHECK_MILLISECONDS = 50;

/** Commands that go backwards, with the request of the debug protocol that each sends. */
const BACK = [
  {
    id: 'pellucid:step-back',
    request: 'stepBack',
    label: 'Step Back',
    keys: ['Shift F10'],
    icon: lineIcon('step-back', 'M13 4v3a3 3 0 0 1-3 3H4M7 7l-3 3 3 3'),
  },
  {
    id: 'pellucid:reverse-continue',
    request: 'reverseContinue',
    label: 'Continue Backwards',
    keys: ['Ctrl F9'],
    icon: lineIcon('reverse-continue', 'M13 3v10L6 8ZM4 3v10'),
  },
] as const;

interface Reply {
  readonly success: boolean;
  readonly message?: string;
  readonly body: unknown;
}

/** Extends JupyterLab's debugger by stopped programs and by steps backwards. */
export const debuggerPlugin: JupyterFrontEndPlugin<void> = {
  id: '@pellucid/lab:debugger',
  description: 'Steps back, and draws the program in which the debugger has stopped.',
  autoStart: true,
  optional: [IDebugger, IDebuggerSidebar, IDebuggerHandler],
  activate: (
    app: JupyterFrontEnd,
    service: IDebugger | null,
    sidebar: Widget | null,
    handler: IDebugger.IHandler | null,
  ) => {
    if (service === null || sidebar === null) {
      return;
    }
    if (handler !== null) {
      // All notebooks share one debugger session. Each update switches it to another kernel, and
      // back if that kernel isn't
      // debugged. Changing notebooks starts several updates. If they overlap, the session ends up
      // with the kernel of an
      // inactive notebook, where steps have no effect, or the debugger of the active one is turned
      // off.
      const updates = handler as Debugger.Handler;
      updates.updateWidget = inTurn(
        updates.updateWidget.bind(updates),
        UPDATE_TIMEOUT_MILLISECONDS,
      );
    }
    const ask = async (command: string, parameters: object): Promise<Reply> => {
      const { session } = service;
      if (session === null) {
        throw new Error('the debugger is off');
      }
      // All requests reach the kernel; the types only list those of the protocol.
      return (await session.sendRequest(command as never, parameters as never)) as Reply;
    };
    /** Ignores the failure of a request whose kernel may terminate meanwhile. */
    const inBackground = (request: Promise<void>): void => void request.catch(() => undefined);
    const isStopped = (): boolean => service.model.stoppedThreads.has(PROGRAM_THREAD);
    const { commands } = app;
    const { callstack } = sidebar as Debugger.Sidebar;
    for (const { id, request, label, keys, icon } of BACK) {
      commands.addCommand(id, {
        label,
        caption: label,
        icon: icon as LabIcon,
        describedBy: { args: { type: 'object' } },
        isEnabled: isStopped,
        execute: () => ask(request, { threadId: PROGRAM_THREAD }),
      });
      commands.addKeyBinding({ command: id, keys: [...keys], selector: STOPPED });
      callstack.toolbar.insertAfter(
        'step-out',
        id,
        new CommandToolbarButton({ commands, id, label: '' }),
      );
    }

    commands.addCommand(STOP_COMMAND, {
      label: 'Stop at the Place of an Error or a Figure',
      describedBy: { args: { type: 'object', properties: { failure: { type: 'number' } } } },
      execute: async ({ failure }) => {
        try {
          await switchOn(app, service);
          const text = await stopAtFailure(service, Number(failure));
          if (text !== '') {
            await showErrorMessage('The debugger can’t stop there', text);
          }
        } catch (error) {
          await showErrorMessage('The debugger can’t stop there', String(error));
        }
      },
    });

    const tell = async (command: string, parameters: object): Promise<void> => {
      const reply = await ask(command, parameters);
      if (!reply.success) {
        stopped.fail(reply.message ?? `${command} failed`);
      }
    };
    const answered = async (command: string, parameters: object): Promise<unknown> => {
      const { success, message, body } = await ask(command, parameters);
      if (!success) {
        throw new Error(message ?? `${command} failed`);
      }
      return body;
    };
    const { model } = service;
    const frameId = (): number | undefined => model.callstack.frame?.id;
    const stopped = new StoppedProgram(
      {
        onEquation: position => inBackground(tell('pellucid/goto', { position })),
        onIteration: iteration => inBackground(tell('pellucid/goto', { iteration })),
        onProgram: program => inBackground(tell('pellucid/goto', { program })),
        onGrid: async () => {
          const body = await answered('pellucid/grid', { frameId: frameId() });
          return (body as { record: unknown }).record;
        },
        onOptions: ({ path, line, condition, hitCondition, logMessage }) => {
          const options = { path, line, condition, hitCondition, logMessage };
          inBackground(tell('pellucid/breakpoint', options).then(listBreakpoints));
        },
        onFigure: async (name, index) =>
          (await answered('pellucid/figure', {
            frameId: frameId(),
            name,
            index,
          })) as VariableFigure,
        onSet: async (expression, value) => {
          await answered('setExpression', { frameId: frameId(), expression, value });
          // Assigning the frame updates the variables of the debugger's own view, as after an
          // evaluation.
          model.callstack.frame = { ...model.callstack.frame! };
          await refresh();
        },
        onPosition: position => inBackground(tell('pellucid/position', { position })),
        onCore: core => inBackground(tell('pellucid/core', { core })),
        onLane: lane => inBackground(tell('pellucid/lane', { lane })),
        onSettings: settings => inBackground(tell('pellucid/settings', settings)),
        onWatch: condition =>
          inBackground(tell('pellucid/watch', { condition: condition === '' ? null : condition })),
      },
      { makeWorker: makeLayoutWorker },
    );
    const listBreakpoints = async (): Promise<void> => {
      const { session } = service;
      if (session?.isStarted !== true) {
        stopped.showBreakpoints([], null, null);
        return;
      }
      const { success, body } = await ask('pellucid/breakpoints', {});
      if (success && session === service.session) {
        const { breakpoints, watch, settings } = body as {
          breakpoints: readonly ListedBreakpoint[];
          watch: string | null;
          settings: StopSettings;
        };
        stopped.showBreakpoints(breakpoints, watch, settings);
      }
    };
    let latest = 0;
    const refresh = async (): Promise<void> => {
      BACK.forEach(({ id }) => commands.notifyCommandChanged(id));
      const asked = ++latest;
      if (!isStopped()) {
        stopped.move();
        setTimeout(() => asked === latest && stopped.hide(), STEP_TIMEOUT_MILLISECONDS);
        return;
      }
      const { shown } = stopped;
      const request = { frameId: frameId(), version: shown?.version, program: shown?.program };
      const { success, body, message } = await ask('pellucid/program', request);
      if (asked !== latest) {
        return;
      }
      if (!success) {
        stopped.fail(message ?? 'the program can’t be shown');
      } else if ((body as { unchanged?: boolean }).unchanged !== true) {
        stopped.show(body as Standing);
      }
    };
    const refreshLater = (): void => inBackground(refresh());
    model.callstack.framesChanged.connect(refreshLater);
    model.callstack.currentFrameChanged.connect(refreshLater);
    service.eventMessage.connect((_, event) => {
      if (event.event === 'stopped') {
        inBackground(listBreakpoints());
      } else if (event.event === 'continued' || event.event === 'terminated') {
        refreshLater();
      }
    });
    service.sessionChanged.connect(() => {
      stopped.end();
      refreshLater();
      inBackground(listBreakpoints());
    });
    const listLater = (): unknown =>
      setTimeout(() => inBackground(listBreakpoints()), BREAKPOINTS_DELAY_MILLISECONDS);
    model.breakpoints.changed.connect(listLater);
    model.breakpoints.restored.connect(listLater);

    const section = new PanelWithToolbar();
    section.id = 'pellucid-stopped-program';
    section.addClass('pellucid-stopped-section');
    section.title.label = 'Program';
    section.addWidget(new Widget({ node: stopped.element }));
    // After the sections for variables and call stack.
    (sidebar as Debugger.Sidebar).insertWidget(2, section);
  },
};

/**
 * Turns the active notebook's debugger on through its button, so that the button shows the state.
 */
async function switchOn(app: JupyterFrontEnd, service: IDebugger): Promise<void> {
  if (service.isStarted) {
    return;
  }
  const { currentWidget } = app.shell;
  currentWidget?.node.querySelector<HTMLElement>('.jp-DebuggerBugButton')?.click();
  const end = Date.now() + START_TIMEOUT_MILLISECONDS;
  while (!service.isStarted) {
    if (Date.now() > end) {
      throw new Error('the debugger doesn’t start: wait until its kernel is idle, and try again');
    }
    await new Promise(resolve => setTimeout(resolve, START_CHECK_MILLISECONDS));
  }
}

/**
 * Stops in the kernel's cell thread until the program resumes; resolves to the reason if it can't,
 * else ''.
 */
async function stopAtFailure(service: IDebugger, failure: number): Promise<string> {
  const kernel = service.session?.connection?.kernel;
  if (kernel === null || kernel === undefined) {
    throw new Error('there is no kernel');
  }
  const expression = `get_ipython().kernel.debugger.stop_at_failure(${failure})`;
  const reply = await kernel.requestExecute({
    code: '',
    silent: true,
    store_history: false,
    user_expressions: { text: expression },
  }).done;
  if (reply.content.status !== 'ok') {
    throw new Error('the kernel was interrupted or restarted');
  }
  // The text arrives as a Python repr.
  const { text } = reply.content.user_expressions as { text?: { data?: Record<string, string> } };
  const shown = text?.data?.['text/plain'] ?? '';
  return shown
    .slice(1, -1)
    .replace(/\\n/g, '\n')
    .replace(/\\(['"\\])/g, '$1');
}
