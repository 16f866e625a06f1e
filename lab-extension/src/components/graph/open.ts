/** Creates the boxes and edges inside an open box. */

import type { Child, Group } from '../../records/hierarchy';
import type { Hierarchy } from '../../records/hierarchy';
import type { Level, LevelReader, LevelUse } from '../../records/level';
import type { Program } from '../../records/program';
import { MAX_MEMBERS } from '../../records/stretches';
import { workIn } from '../../records/work';
import { makeBox, memberBox, pillBox, portBox, type Box, type BoxEdge } from './box';

/** Open boxes, the selected copy of each fold, and expanded folds. */
export interface OpenState {
  readonly isOpen: (box: Box) => boolean;
  readonly copyOf: (key: string) => number;
  readonly isUnfolded: (key: string) => boolean;
}

/** Maximum number of users of a shared input box; with more, each user has its own. */
const MAX_USERS_OF_SHARED_INPUT = 4;
const MAX_SEPARATE_INPUTS = 2;
const MAX_OUTPUTS = 6;
/** Maximum number of outputs of shortened levels. */
const MAX_OUTPUTS_OF_SHORT_LEVEL = 2;
const MAX_TIGHT_MEMBERS = 7;

/** Creates the contents of boxes of one program. */
export class LevelOpener {
  private readonly unfolded = new Map<string, Group>();
  private readonly isShort: boolean;
  /** Whether all inputs of a level share one box. */
  private readonly isTight: boolean;
  private readonly total: number;

  constructor(
    private readonly program: Program,
    private readonly hierarchy: Hierarchy,
    private readonly reader: LevelReader,
    private readonly state: OpenState,
  ) {
    const { work, most } = hierarchy;
    this.isShort = most < MAX_MEMBERS;
    this.isTight = most <= MAX_TIGHT_MEMBERS;
    this.total = work === null ? NaN : workIn(work, hierarchy.body(0).equations);
  }

  /** Share of equations, run `runs` times, in the program's work; NaN if unknown. */
  private share(equations: ArrayLike<number>, runs: number): number {
    const { work } = this.hierarchy;
    return work === null || this.total === 0
      ? NaN
      : Math.min(1, (runs * workIn(work, equations)) / this.total);
  }

  /** Creates the box of the whole program, with all open boxes in it. */
  root(): Box {
    const group = this.hierarchy.body(0);
    const root = makeBox('group', '', null, {
      title: this.program.name,
      content: group,
      equations: group.equations,
      isExpandable: true,
      isOpen: true,
    });
    this.fill(root);
    return root;
  }

  /** Number of boxes that `box` would show when opened. */
  size(box: Box): number {
    const uses = box.kind === 'call' ? this.program.openedBodiesOf(box.equation) : [];
    if (uses.length > 1) {
      return uses.length;
    }
    const group = this.contentOf(box);
    return group === null ? 0 : group.children.length;
  }

  private fill(box: Box): void {
    const uses = box.kind === 'call' ? this.program.openedBodiesOf(box.equation) : [];
    if (uses.length > 1) {
      const inner = uses.map(use => this.share(this.hierarchy.body(use.body).equations, 1));
      const all = inner.reduce((sum, share) => sum + share, 0);
      box.children = uses.map((use, index) => {
        const group = this.hierarchy.body(use.body);
        const region = makeBox('region', `${box.key}/b${index}`, box, {
          title: use.role.replace(/_jaxpr$/, ''),
          subtitle: group.equations.length === 0 ? 'empty' : '',
          family: 'control',
          content: group,
          equations: [box.equation],
          runs: box.runs * (use.trips ?? 1),
          share: all === 0 ? NaN : (box.share * inner[index]!) / all,
          isExpandable: group.equations.length > 0,
        });
        this.openIfAsked(region);
        return region;
      });
      if (this.program.primitive(box.equation).endsWith('while')) {
        this.joinLoop(box);
      }
      return;
    }
    const group = this.contentOf(box);
    if (group !== null) {
      this.fillLevel(box, this.reader.level(group));
    }
  }

  /** Adds the edges of a loop: from its condition to its body, and back. */
  private joinLoop(box: Box): void {
    const isCondition = (region: Box): boolean => region.title.startsWith('cond');
    const condition = box.children.find(isCondition);
    const body = box.children.find(region => !isCondition(region));
    if (condition !== undefined && body !== undefined) {
      const outputs = (region: Box): number[] =>
        Array.from(this.program.bodies[region.content!.body]!.outputs);
      box.children = [condition, body];
      box.edges = [edge(condition, body, outputs(condition)), edge(body, condition, outputs(body))];
    }
  }

  private openIfAsked(box: Box): void {
    if (box.isExpandable && this.state.isOpen(box)) {
      box.isOpen = true;
      this.fill(box);
    }
  }

  private contentOf(box: Box): Group | null {
    if (box.kind === 'call') {
      const [use] = this.program.openedBodiesOf(box.equation);
      return use === undefined ? null : this.unfold(this.hierarchy.body(use.body), box.key);
    }
    return box.content === null ? null : this.unfold(box.content, box.key);
  }

  /** The group with those of its folds expanded that the user has expanded. */
  private unfold(group: Group, key: string): Group {
    const isUnfolded = (child: Child): child is Group =>
      typeof child !== 'number' &&
      child.kind === 'fold' &&
      this.state.isUnfolded(`${key}/g${child.id}`);
    const keys = group.children.filter(isUnfolded).map(child => child.id);
    if (keys.length === 0) {
      return group;
    }
    const name = `${group.id}:${keys.join()}`;
    let result = this.unfolded.get(name);
    if (result === undefined) {
      const children = group.children.flatMap(child =>
        isUnfolded(child) ? child.copies.flatMap(membersOfCopy) : [child],
      );
      result = { ...group, children };
      this.unfolded.set(name, result);
    }
    return result;
  }

  private fillLevel(box: Box, level: Level): void {
    const members = level.members.map(child => {
      const key = typeof child === 'number' ? '' : `${box.key}/g${child.id}`;
      const equations = typeof child === 'number' ? [child] : child.equations;
      const share = this.share(equations, box.runs);
      const member = memberBox(this.program, child, box, this.state.copyOf(key), share);
      this.openIfAsked(member);
      return member;
    });
    const inputs: Box[] = [];
    const outputs: Box[] = [];
    const before: BoxEdge[] = [];
    const after: BoxEdge[] = [];
    this.addArrivals(box, level, members, inputs, before);
    this.addInputs(box, level, members, inputs, before);
    if (level.returns.length > 0) {
      this.addReturns(box, level, members, inputs, outputs, after);
    } else {
      this.addDepartures(box, level, members, outputs, after);
    }
    const between = level.edges.map(({ from, to, values }) =>
      edge(members[from]!, members[to]!, values),
    );
    box.children = [...inputs, ...members, ...outputs];
    box.edges = [...before, ...between, ...after];
  }

  /** Adds ports for values that enter; values with the same users share one. */
  private addArrivals(
    box: Box,
    level: Level,
    members: readonly Box[],
    boxes: Box[],
    edges: BoxEdge[],
  ): void {
    for (const { users, values } of bySameUsers(level.arrivals)) {
      const port = portBox('arrival', values, `${box.key}/a${values[0]}`, box);
      boxes.push(port);
      edges.push(...users.map(user => edge(port, members[user]!, values)));
    }
  }

  /** Adds ports for values that leave; values defined by one member share one. */
  private addDepartures(
    box: Box,
    level: Level,
    members: readonly Box[],
    boxes: Box[],
    edges: BoxEdge[],
  ): void {
    const made = level.departures.map(({ operand, member }) => ({
      value: operand,
      members: [member],
    }));
    for (const { users, values } of bySameUsers(made)) {
      const port = portBox('departure', values, `${box.key}/d${values[0]}`, box);
      boxes.push(port);
      edges.push(edge(members[users[0]!]!, port, values));
    }
  }

  /** Adds input boxes right above their users, instead of one long row at the top. */
  private addInputs(
    box: Box,
    level: Level,
    members: readonly Box[],
    boxes: Box[],
    edges: BoxEdge[],
  ): void {
    const shown = level.inputs.flatMap(({ value, members: users }) => {
      // An open group of the same body shows its inputs itself.
      const closed = users.filter(user => !showsInputs(members[user]!));
      return closed.length > MAX_USERS_OF_SHARED_INPUT
        ? closed.map(user => ({ value, members: [user] }))
        : closed.length > 0
          ? [{ value, members: closed }]
          : [];
    });
    const groups = bySameUsers(shown);
    if (this.isTight && groups.length > 1) {
      const values = [...new Set(groups.flatMap(group => group.values))];
      const pill = pillBox(this.program, 'input', values, `${box.key}/i${values[0]}`, box);
      boxes.push(pill);
      for (const user of new Set(groups.flatMap(group => group.users))) {
        const used = groups.filter(group => group.users.includes(user));
        const usedValues = used.flatMap(group => group.values);
        edges.push(edge(pill, members[user]!, usedValues));
      }
      return;
    }
    for (const { users, values } of groups) {
      const together =
        this.isShort || values.length > MAX_SEPARATE_INPUTS
          ? [values]
          : values.map(value => [value]);
      for (const pillValues of together) {
        const key = `${box.key}/i${pillValues[0]}.${users.join('.')}`;
        const pill = pillBox(this.program, 'input', pillValues, key, box);
        boxes.push(pill);
        edges.push(...users.map(user => edge(pill, members[user]!, pillValues)));
      }
    }
  }

  private addReturns(
    box: Box,
    level: Level,
    members: readonly Box[],
    inputs: Box[],
    outputs: Box[],
    edges: BoxEdge[],
  ): void {
    const groups =
      level.returns.length > (this.isShort ? MAX_OUTPUTS_OF_SHORT_LEVEL : MAX_OUTPUTS)
        ? [level.returns.map((_, index) => index)]
        : level.returns.map((_, index) => [index]);
    groups.forEach((indices, group) => {
      const returns = indices.map(index => level.returns[index]!);
      const operands = returns.map(each => each.operand);
      const pill = pillBox(this.program, 'output', operands, `${box.key}/o${group}`, box);
      outputs.push(pill);
      const byMaker = new Map<Box, number[]>();
      returns.forEach(({ operand, member }) => {
        const maker = member >= 0 ? members[member]! : this.inputOf(box, operand, inputs);
        if (maker !== null) {
          byMaker.set(maker, [...(byMaker.get(maker) ?? []), operand]);
        }
      });
      byMaker.forEach((values, maker) => edges.push(edge(maker, pill, values)));
    });
  }

  /** The box of an input that is returned unchanged; created if nothing else uses the input. */
  private inputOf(box: Box, operand: number, inputs: Box[]): Box | null {
    if (operand < 0) {
      return null;
    }
    const known = inputs.find(
      input => input.operands.length === 1 && input.operands[0] === operand,
    );
    if (known !== undefined) {
      return known;
    }
    const pill = pillBox(this.program, 'input', [operand], `${box.key}/i${operand}`, box);
    inputs.push(pill);
    return pill;
  }
}

/** Groups values by their set of users, in order of the first value. */
function bySameUsers(uses: readonly LevelUse[]): { users: readonly number[]; values: number[] }[] {
  const groups = new Map<string, { users: readonly number[]; values: number[] }>();
  for (const { value, members } of uses) {
    const key = members.join();
    const known = groups.get(key);
    if (known === undefined) {
      groups.set(key, { users: members, values: [value] });
    } else {
      known.values.push(value);
    }
  }
  return [...groups.values()];
}

function edge(from: Box, to: Box, values: readonly number[]): BoxEdge {
  return { from, to, values, points: new Float32Array(0) };
}

function showsInputs(box: Box): boolean {
  return box.isOpen && (box.kind === 'group' || box.kind === 'fold');
}

function membersOfCopy(copy: Group): readonly Child[] {
  return copy.kind === 'copy' ? copy.children : [copy];
}
