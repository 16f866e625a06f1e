/** The line to one kernel's session: state in, requests out. The only code that talks to a kernel. */

import type { Kernel } from '@jupyterlab/services';
import { Signal, type ISignal } from '@lumino/signaling';

import type { ProgressRecord, Message, Shown, State } from '../generated/kernel';
import type { Asked, Connection } from '../panels/panel';

const TARGET = 'pellucid.session';
/** Opened by a kernel that has learnt about pellucid since it was asked. */
const LOADED_TARGET = 'pellucid.loaded';

/** What is known of a session that has sent nothing yet. */
const NOTHING = { states: new Map<string, State>(), busy: null };

function progressOf(message: ProgressRecord): ProgressRecord | null {
  return message.function === null ? null : message;
}

interface Waiting {
  readonly resolve: (shown: Shown | null) => void;
  readonly reject: (error: Error) => void;
}

/**
 * One kernel connection of one notebook. A kernel that restarts is asked again; one that knows no
 * pellucid closes the comm at once.
 */
export class SessionClient {
  private comm: Kernel.IComm | null = null;
  private current: Connection;
  private lastRequest = 0;
  private followed: readonly string[] = [];
  private readonly waiting = new Map<number, Waiting>();
  private readonly changedSignal = new Signal<this, Connection>(this);
  private isDisposed = false;

  constructor(
    private readonly kernel: Kernel.IKernelConnection,
    private readonly name: string,
  ) {
    this.current = { status: 'waiting', kernel: name };
    kernel.statusChanged.connect(this.statusChanged, this);
    kernel.disposed.connect(this.dispose, this);
    this.open();
  }

  get connection(): Connection {
    return this.current;
  }

  /** Emitted with each new state of the kernel. */
  get changed(): ISignal<this, Connection> {
    return this.changedSignal;
  }

  /** From now on the states of these panels come, and of no others. */
  follow(panels: readonly string[]): void {
    if (panels.join() !== this.followed.join()) {
      this.followed = panels;
      this.comm?.send({ kind: 'follow', panels: [...panels] });
    }
  }

  /** Asks the kernel; what it answers to show, if anything. */
  ask(request: Asked): Promise<Shown | null> {
    const { comm } = this;
    if (comm === null || this.current.status !== 'ready') {
      return Promise.reject(new Error(`${this.name} is not connected`));
    }
    const number = ++this.lastRequest;
    return new Promise((resolve, reject) => {
      this.waiting.set(number, { resolve, reject });
      comm.send({ ...request, request: number } as never);
    });
  }

  /** Stops what the kernel runs, as the notebook's own button does. */
  interrupt(): Promise<void> {
    return this.kernel.interrupt();
  }

  dispose(): void {
    if (this.isDisposed) {
      return;
    }
    this.isDisposed = true;
    this.kernel.statusChanged.disconnect(this.statusChanged, this);
    this.kernel.disposed.disconnect(this.dispose, this);
    this.lose('gone');
    Signal.clearData(this);
  }

  private open(): void {
    // A restart forgets the targets of a connection.
    this.kernel.registerCommTarget(LOADED_TARGET, () => {
      if (this.current.status === 'absent') {
        this.open();
      }
    });
    const comm = this.kernel.createComm(TARGET);
    this.comm = comm;
    comm.onMsg = message => {
      if (this.comm === comm) {
        this.received(message.content.data as unknown as Message);
      }
    };
    comm.onClose = () => {
      if (this.comm === comm) {
        this.lose('absent');
      }
    };
    comm.open();
    comm.send({ kind: 'follow', panels: [...this.followed] });
  }

  private received(message: Message): void {
    if (message.kind === 'answer') {
      this.answered(message);
      return;
    }
    const { states, busy } = this.current.status === 'ready' ? this.current : NOTHING;
    this.become({
      status: 'ready',
      kernel: this.name,
      states: message.kind === 'state' ? new Map(states).set(message.panel, message) : states,
      busy: message.kind === 'progress' ? progressOf(message) : busy,
    });
  }

  private answered(message: Extract<Message, { readonly kind: 'answer' }>): void {
    const waiting = this.waiting.get(message.request);
    this.waiting.delete(message.request);
    if (message.error === null) {
      waiting?.resolve(message.shown);
    } else {
      waiting?.reject(new Error(message.error));
    }
  }

  private statusChanged(_: unknown, status: Kernel.Status): void {
    if (status === 'restarting' || status === 'autorestarting') {
      this.lose('waiting');
    } else if (status === 'dead') {
      this.lose('gone');
    } else if (this.comm === null && this.current.status !== 'absent' && status === 'idle') {
      this.open();
    }
  }

  /** Forgets the comm: nothing that was asked will be answered. */
  private lose(status: 'waiting' | 'absent' | 'gone'): void {
    this.comm = null;
    this.waiting.forEach(each => each.reject(new Error(`${this.name} did not answer`)));
    this.waiting.clear();
    this.become({ status, kernel: this.name });
  }

  private become(connection: Connection): void {
    this.current = connection;
    this.changedSignal.emit(connection);
  }
}
