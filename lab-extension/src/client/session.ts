/**
 * Client of the pellucid session in one kernel: receives states, sends requests. No other module
 * talks to kernels.
 */

import type { Kernel } from '@jupyterlab/services';
import { Signal, type ISignal } from '@lumino/signaling';

import type { ProgressRecord, Message, Shown, State } from '../generated/kernel';
import type { Asked, Connection } from '../panels/panel';

const TARGET = 'pellucid.session';
/**
 * Comm target that a kernel opens when it has loaded pellucid after an earlier, unanswered request.
 */
const LOADED_TARGET = 'pellucid.loaded';

/** State of a session that has not sent anything yet. */
const NOTHING = { states: new Map<string, State>(), busy: null };

function progressOf(message: ProgressRecord): ProgressRecord | null {
  return message.function === null ? null : message;
}

interface Waiting {
  readonly resolve: (shown: Shown | null) => void;
  readonly reject: (error: Error) => void;
}

/**
 * Connection of one notebook to one kernel. After a restart of the kernel, the comm is opened
 * again. A kernel
 * without pellucid closes it at once.
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

  /** Subscribes to the states of these panels, and of no others. */
  follow(panels: readonly string[]): void {
    if (panels.join() !== this.followed.join()) {
      this.followed = panels;
      this.comm?.send({ kind: 'follow', panels: [...panels] });
    }
  }

  /** Sends a request to the kernel; resolves to the record to show, if the answer contains one. */
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

  /** Interrupts the kernel, like the notebook's own button. */
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
    // A restart drops the comm targets of a connection.
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

  /** Drops the comm: pending requests will not be answered. */
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
