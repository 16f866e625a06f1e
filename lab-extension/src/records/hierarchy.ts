/** Groups equations by scope, user function, repetition or line. */

import { findRepeats } from './folding';
import type { Program } from './program';
import { Wiring, equationSignatures, kindSignatures, mix } from './signature';
import {
  LineStacks,
  MAX_MEMBERS,
  equalStretches,
  isBackward,
  lineStretches,
  passesOf,
  smallStretches,
  type Stretch,
} from './stretches';
import { workIn, workOf } from './work';

/** Criterion by which equations are grouped. */
export type Grouping = 'scopes' | 'functions' | 'none';

export type GroupKind =
  | 'body' // all equations of a body
  | 'scope'
  | 'function'
  | 'fold' // consecutive copies that are equal, or differ only in shapes
  | 'copy' // one copy of a fold
  | 'pass' // forward or backward pass
  | 'lines'; // neighbours from one or a few source lines

/** An equation, or a group of equations. */
export type Child = number | Group;

export interface Group {
  readonly id: number;
  readonly kind: GroupKind;
  readonly label: string;
  /**
   * Pass or transformation that made the equations: `backward`, `vmap`; empty for the user's own.
   */
  readonly transformation: string;
  readonly body: number;
  /** Direct members in program order; for a fold, those of its first copy. */
  readonly children: readonly Child[];
  /** All equations inside, in program order. */
  readonly equations: Int32Array;
  /** The copies of a fold; empty for other kinds. */
  readonly copies: readonly Group[];
}

/** Minimum number of equal members in succession that are folded into one. */
const MIN_COPIES = 3;
/** Minimum number of plain equations to fold: three additions are no layer. */
const MIN_FOLDED_EQUATIONS = 12;
const MIN_FOLDED_PERIOD = 3;

interface Step {
  readonly key: string;
  readonly label: string;
}

interface Draft {
  readonly label: string;
  readonly equations: number[];
}

/** The groups of a program, computed for each body on demand. */
export class Hierarchy {
  readonly grouping: Grouping;
  private readonly bodies: (Group | undefined)[] = [];
  private readonly paths = new Map<number, readonly Step[]>();
  private readonly signatures: Int32Array;
  private readonly wiring: Wiring;
  private readonly lines: LineStacks;
  /** Estimated work of each equation; null if the record has no estimates. */
  readonly work: Float64Array | null;
  private readonly kindWiring: Wiring;
  private readonly kinds: Int32Array;
  private readonly childSignatures = new Map<Group, number>();
  private nextId = 0;

  constructor(
    readonly program: Program,
    grouping: Grouping | 'auto' = 'auto',
    readonly folding = true,
    /** Maximum number of members of a level before neighbours are grouped. */
    readonly most = MAX_MEMBERS,
  ) {
    this.grouping = grouping === 'auto' ? preferredGrouping(program) : grouping;
    this.signatures = equationSignatures(program);
    this.wiring = new Wiring(program, this.signatures);
    this.kinds = kindSignatures(program);
    this.kindWiring = new Wiring(program, this.kinds);
    this.lines = new LineStacks(program);
    this.work = workOf(program);
  }

  /** The group with all equations of a body. */
  body(body: number): Group {
    let group = this.bodies[body];
    if (group === undefined) {
      const { name, first, end } = this.program.bodies[body]!;
      const equations = Int32Array.from({ length: end - first }, (_, i) => first + i);
      const depth = this.sharedDepth(equations, body);
      const members = this.split(Array.from(equations), depth, body, true);
      const children = this.tidy(this.parted(members, body), body);
      group = this.group('body', name, body, children, equations);
      this.bodies[body] = group;
    }
    return group;
  }

  private group(
    kind: GroupKind,
    label: string,
    body: number,
    children: readonly Child[],
    equations: Int32Array,
    copies: readonly Group[] = [],
  ): Group {
    const [first] = equations;
    const isBack = first !== undefined && isBackward(this.program, first);
    const made =
      first === undefined ? '' : isBack ? 'backward' : this.program.transformation(first);
    const shared = equations.every(
      equation => this.program.transformations[equation] === this.program.transformations[first!],
    );
    return {
      id: this.nextId++,
      kind,
      label,
      transformation: shared ? made : '',
      body,
      children,
      equations,
      copies,
    };
  }

  /**
   * Length of the common prefix of the paths of all equations of a body, which leads to the body
   * itself. A scope around
   * the whole program was written by the user, and is kept.
   */
  private sharedDepth(equations: Int32Array, body: number): number {
    if (this.grouping === 'scopes' && body === 0) {
      return 0;
    }
    let shared: readonly Step[] | null = null;
    for (const equation of equations) {
      const path = this.path(equation);
      if (path.length === 0 || path === shared) {
        continue;
      }
      const known: readonly Step[] = shared ?? path;
      const end = known.findIndex((step, depth) => step.key !== path[depth]?.key);
      shared = end < 0 ? known : known.slice(0, end);
      if (shared.length === 0) {
        return 0;
      }
    }
    return shared?.length ?? 0;
  }

  /** Members of a level: consecutive equations with the same next step form a group. */
  private split(
    equations: readonly number[],
    depth: number,
    body: number,
    isOutermost = false,
  ): Child[] {
    const members: (number | Draft)[] = [];
    const open = new Map<string, { draft: Draft; end: number }>();
    const mergeAll = this.program.dialect === 'hlo';
    equations.forEach((equation, place) => {
      const step = this.path(equation)[depth];
      if (step === undefined) {
        members.push(equation);
        return;
      }
      // The same path in the backward pass forms another group.
      const key = isOutermost ? `${this.program.transformations[equation]} ${step.key}` : step.key;
      const known = open.get(key);
      // A scope that reappears after a gap is another call of the same function. Not in optimized
      // programs, whose order is
      // that of the schedule.
      const gap = known === undefined ? 0 : place - known.end;
      if (
        known !== undefined &&
        (mergeAll || gap <= Math.min(8, known.draft.equations.length / 4))
      ) {
        known.draft.equations.push(equation);
        known.end = place + 1;
        return;
      }
      const draft: Draft = { label: step.label, equations: [equation] };
      open.set(key, { draft, end: place + 1 });
      members.push(draft);
    });
    return members.map(member =>
      typeof member === 'number' ? member : this.finish(member, depth, body),
    );
  }

  private finish(draft: Draft, depth: number, body: number): Child {
    if (draft.equations.length === 1) {
      return draft.equations[0]!;
    }
    const kind = this.grouping === 'functions' ? 'function' : 'scope';
    const inner = this.split(draft.equations, depth + 1, body);
    const only = inner.length === 1 ? inner[0]! : null;
    if (only !== null && typeof only !== 'number' && only.kind === kind) {
      return { ...only, label: `${draft.label}/${only.label}` };
    }
    const children = this.tidy(inner, body);
    const [folded] = children;
    if (
      children.length === 1 &&
      typeof folded === 'object' &&
      folded.kind === 'fold' &&
      !isNamed(folded)
    ) {
      return { ...folded, label: draft.label };
    }
    return this.group(kind, draft.label, body, children, Int32Array.from(draft.equations));
  }

  private path(equation: number): readonly Step[] {
    if (this.grouping === 'none') {
      return [];
    }
    const { program } = this;
    const byScope = this.grouping === 'scopes';
    const place = byScope ? program.scopes[equation]! : program.spans[equation]!;
    let path = this.paths.get(place);
    if (path === undefined) {
      path = byScope ? scopeSteps(program, equation) : functionSteps(program, equation);
      this.paths.set(place, path);
    }
    return path;
  }

  /** Groups the forward and the backward pass of a derivative. */
  private parted(members: Child[], body: number): Child[] {
    if (this.grouping === 'none') {
      return members;
    }
    const passes = passesOf(this.program, this.lines, members.map(equationsOf));
    return this.together(members, passes, (parts, label) => {
      const [only] = parts;
      if (parts.length === 1 && typeof only === 'object') {
        return { ...only, transformation: label };
      }
      const equations = Int32Array.from(parts.flatMap(equationsOf));
      return {
        ...this.group('pass', label, body, this.tidy(parts, body), equations),
        transformation: '',
      };
    });
  }

  /** Folds repeated members, then groups members by line if there are still too many. */
  private tidy(children: Child[], body: number): Child[] {
    const equal = this.folding ? this.fold(children, body) : children;
    if (this.grouping === 'none') {
      return equal;
    }
    const folded = this.folding ? this.foldSiblings(equal, body) : equal;
    if (folded.length <= this.most) {
      return folded;
    }
    const make = (parts: Child[], label: string): Child => {
      const equations = Int32Array.from(parts.flatMap(equationsOf));
      const inner = parts.length > this.most ? this.tidy(parts, body) : parts;
      return this.group('lines', label, body, inner, equations);
    };
    const byLine = this.together(folded, lineStretches(this.lines, folded), make);
    const { work, lines } = this;
    const costs = byLine.map(child => (work === null ? NaN : workIn(work, equationsOf(child))));
    const small = byLine.length > this.most ? smallStretches(lines, byLine, costs) : [];
    const byCost = this.together(byLine, small, make);
    return this.together(byCost, equalStretches(lines, byCost, this.most), make);
  }

  /** The members with each stretch replaced by one group. */
  private together(
    members: Child[],
    stretches: readonly Stretch[],
    make: (parts: Child[], label: string) => Child,
  ): Child[] {
    const result: Child[] = [];
    let next = 0;
    for (const { start, end, label } of stretches) {
      result.push(...members.slice(next, start), make(members.slice(start, end), label));
      next = end;
    }
    return [...result, ...members.slice(next)];
  }

  private fold(children: Child[], body: number): Child[] {
    if (children.length < MIN_COPIES) {
      return children;
    }
    const signatures = Int32Array.from(children, child => this.signature(child));
    const result: Child[] = [];
    let next = 0;
    for (const { start, period, count } of findRepeats(signatures, MIN_COPIES)) {
      const at = (copy: number): Child[] =>
        children.slice(start + copy * period, start + (copy + 1) * period);
      const isWorth =
        at(0).some(child => this.isExpandable(child)) ||
        (period >= MIN_FOLDED_PERIOD && period * count >= MIN_FOLDED_EQUATIONS);
      const copies = isWorth ? this.equalCopies(count, at) : null;
      if (copies === null) {
        continue;
      }
      result.push(...children.slice(next, start + copies.first * period));
      const groups = copies.members.map(members => this.copy(members, body));
      result.push(this.foldOf(groups, body));
      next = start + (copies.first + copies.members.length) * period;
    }
    result.push(...children.slice(next));
    return result;
  }

  /** Folds independent neighbours that one source line made for values of several shapes. */
  private foldSiblings(children: Child[], body: number): Child[] {
    if (children.length < MIN_COPIES) {
      return children;
    }
    const kinds = Int32Array.from(children, child =>
      typeof child === 'number'
        ? this.kinds[child]!
        : mix(19, this.kindWiring.hash(child.equations)),
    );
    const result: Child[] = [];
    let next = 0;
    for (const { start, period, count } of findRepeats(kinds, MIN_COPIES)) {
      const copies = this.equalCopies(
        count,
        copy => children.slice(start + copy * period, start + (copy + 1) * period),
        this.kindWiring,
      );
      if (copies === null || !this.areIndependent(copies.members)) {
        continue;
      }
      result.push(...children.slice(next, start + copies.first * period));
      result.push(
        this.foldOf(
          copies.members.map(members => this.copy(members, body)),
          body,
        ),
      );
      next = start + (copies.first + copies.members.length) * period;
    }
    return [...result, ...children.slice(next)];
  }

  /** Whether no copy uses results of another one, and all come from user lines. */
  private areIndependent(copies: readonly Child[][]): boolean {
    const { program } = this;
    const equations = copies.map(copy => copy.flatMap(equationsOf));
    const owners = new Map(
      equations.flatMap((list, copy) => list.map(each => [each, copy] as const)),
    );
    return equations.every((list, copy) =>
      list.every(
        equation =>
          program.spans[equation]! >= 0 &&
          program.operandsOf(equation).every(operand => {
            const maker = operand >= 0 ? owners.get(program.definers[operand]!) : undefined;
            return maker === undefined || maker === copy;
          }),
      ),
    );
  }

  /** The longest run of copies with equal data flow. */
  private equalCopies(
    count: number,
    at: (copy: number) => Child[],
    wiring = this.wiring,
  ): { first: number; members: Child[][] } | null {
    const members = Array.from({ length: count }, (_, copy) => at(copy));
    const hashes = members.map(copy => wiring.hash(copy.flatMap(equationsOf)));
    let best = { first: 0, length: 0 };
    for (let first = 0, i = 1; i <= count; i++) {
      if (i === count || hashes[i] !== hashes[first]) {
        if (i - first > best.length) {
          best = { first, length: i - first };
        }
        first = i;
      }
    }
    return best.length >= MIN_COPIES
      ? { first: best.first, members: members.slice(best.first, best.first + best.length) }
      : null;
  }

  private copy(members: Child[], body: number): Group {
    const [only] = members;
    if (members.length === 1 && typeof only === 'object' && only.kind !== 'fold') {
      return only;
    }
    const equations = Int32Array.from(members.flatMap(equationsOf));
    const name =
      members.length > 1 || only === undefined
        ? ''
        : typeof only === 'number'
          ? callName(this.program, only)
          : only.label;
    return this.group('copy', name, body, members, equations);
  }

  private foldOf(copies: readonly Group[], body: number): Group {
    const first = copies[0]!;
    const last = copies[copies.length - 1]!;
    const equations = Int32Array.from(copies.flatMap(copy => Array.from(copy.equations)));
    const label = first.label === '' ? this.mainNames(first) : rangeLabel(first.label, last.label);
    return this.group('fold', label, body, first.children, equations, copies);
  }

  /** Names of the first groups or calls in a copy, for a fold without a name of its own. */
  private mainNames(copy: Group): string {
    const names = copy.children
      .filter(child => this.isExpandable(child))
      .map(child => (typeof child === 'number' ? callName(this.program, child) : child.label));
    const { program } = this;
    if (names.length === 0 && copy.children.length === 1) {
      const [only] = copy.equations;
      const name = program.userName(program.resultsOf(only!)[0] ?? -1).replace(/[₀-₉]+$/, '');
      return [name, program.primitive(only!)].filter(Boolean).join(' = ');
    }
    const shown =
      names.length > 0 ? names : copy.children.map(child => program.primitive(child as number));
    return shown.slice(0, 3).join(', ') + (shown.length > 3 ? ', …' : '');
  }

  private isExpandable(child: Child): boolean {
    return typeof child !== 'number' || this.program.hasBodies(child);
  }

  private signature(child: Child): number {
    if (typeof child === 'number') {
      return this.signatures[child]!;
    }
    let signature = this.childSignatures.get(child);
    if (signature === undefined) {
      signature = mix(13, this.wiring.hash(child.equations));
      this.childSignatures.set(child, signature);
    }
    return signature;
  }
}

/** Whether the copies of a fold have a name. */
function isNamed(fold: Group): boolean {
  return fold.copies.some(copy => copy.label !== '');
}

/** The equations of a child: its own index, or those of a group. */
export function equationsOf(child: Child): number[] {
  return typeof child === 'number' ? [child] : Array.from(child.equations);
}

/** Display name of a call: that of the function, or else of the primitive. */
export function callName(program: Program, equation: number): string {
  const name = program.param(equation, 'name');
  if (name !== undefined) {
    return name;
  }
  const [first, ...others] = program.bodiesOf(equation);
  const inner = first !== undefined && others.length === 0 ? program.bodies[first.body]!.name : '';
  return inner.startsWith('<') ? '' : inner;
}

function preferredGrouping(program: Program): Grouping {
  const total = program.equationCount;
  const scoped = program.scopes.reduce((sum, scope) => sum + (scope >= 0 ? 1 : 0), 0);
  if (scoped >= total * 0.3) {
    return 'scopes';
  }
  const spanned = program.spans.reduce((sum, span) => sum + (span >= 0 ? 1 : 0), 0);
  return spanned >= total * 0.3 ? 'functions' : 'scopes';
}

function scopeSteps(program: Program, equation: number): Step[] {
  return program
    .scopePath(equation)
    .map(scope => ({ key: String(scope), label: program.scopeName(scope) }));
}

/** One step per function of the user's call stack, outermost first. */
function functionSteps(program: Program, equation: number): Step[] {
  const stack = program.callStack(equation);
  const steps = stack.map((span, depth) => {
    const { function: name, line } = program.span(span);
    const last = name.replace(/^.*<locals>\./, '');
    const label = last === '<lambda>' ? `lambda, line ${line}` : last;
    return { key: `${stack[depth + 1] ?? -1} ${name}`, label };
  });
  return steps.reverse().filter(step => step.label !== '' && step.label !== '<module>');
}

/**
 * `layer_0 … layer_11` for two names that differ in a number; the name itself if they are equal.
 */
function rangeLabel(first: string, last: string): string {
  return first === last ? first : `${first} … ${last}`;
}
