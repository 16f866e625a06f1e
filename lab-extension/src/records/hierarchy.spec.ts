import { describe, expect, test } from 'vitest';
import { PROGRAMS, REAL_PROGRAMS, sampleProgram } from '../testing/samples';
import { findRepeats } from './folding';
import { Hierarchy, equationsOf, type Child, type Group, type Grouping } from './hierarchy';
import { LevelReader } from './level';

function groupsIn(group: Group): Group[] {
  const inner = [...group.children, ...group.copies].filter(child => typeof child !== 'number');
  return [group, ...inner.flatMap(groupsIn)];
}

/** Equations of a group's members; of a fold, those of all copies. */
function membersOf(group: Group): number[] {
  const children: readonly Child[] = group.kind === 'fold' ? group.copies : group.children;
  return children.flatMap(equationsOf).sort((a, b) => a - b);
}

const SMALL = PROGRAMS.filter(name => !name.startsWith('equations'));

describe('groups', () => {
  test.each(PROGRAMS)(
    'of %s hold every equation exactly once',
    name => {
      const program = sampleProgram(name);
      for (const grouping of ['scopes', 'functions', 'none'] as Grouping[]) {
        for (const folding of [true, false]) {
          const hierarchy = new Hierarchy(program, grouping, folding);
          program.bodies.forEach(({ first, end }, body) => {
            const root = hierarchy.body(body);
            expect(root.equations.length).toBe(end - first);
            for (const group of groupsIn(root)) {
              expect(membersOf(group)).toEqual(Array.from(group.equations).sort((a, b) => a - b));
            }
          });
        }
      }
    },
    60_000,
  );

  test('fold equal layers, and only those', () => {
    const root = new Hierarchy(sampleProgram('transformer')).body(0);
    const fold = root.children.find(child => typeof child !== 'number' && child.kind === 'fold');
    expect(fold).toMatchObject({ label: 'layer_0 … layer_11' });
    expect((fold as Group).copies).toHaveLength(12);
    const unfolded = new Hierarchy(sampleProgram('transformer'), 'scopes', false).body(0);
    expect(unfolded.children).toHaveLength(14);
  });

  test('fold layers that differ in size separately', () => {
    const program = sampleProgram('transformer');
    // One layer gets another literal, so it differs from the others.
    const equation = program.ids.findIndex(
      (_, each) => each > 400 && program.param(each, 'y') === '3',
    );
    program.paramTexts[program.paramStarts[equation]!] = program.paramTexts[0]!;
    const root = new Hierarchy(program).body(0);
    const copies = root.children.flatMap(child =>
      typeof child !== 'number' && child.kind === 'fold' ? [child.copies.length] : [],
    );
    const layer = Math.floor((equation - 2) / 70);
    expect(copies).toEqual([layer, 11 - layer].filter(count => count >= 3));
  });

  test('fold calls of one body', () => {
    const root = new Hierarchy(sampleProgram('transformer_calls')).body(0);
    expect(
      root.children.map(child => (typeof child === 'number' ? 1 : child.copies.length)),
    ).toEqual([1, 12]);
  });

  test('follow the user’s functions where no scope is named', () => {
    const hierarchy = new Hierarchy(sampleProgram('transformer_unscoped'));
    expect(hierarchy.grouping).toBe('functions');
    const labels = groupsIn(hierarchy.body(0)).map(group => group.label);
    expect(labels).toEqual(expect.arrayContaining(['layer', 'attention', 'feed_forward']));
    const layer = groupsIn(hierarchy.body(0)).find(group => group.label === 'layer');
    expect(layer!.copies).toHaveLength(12);
  });

  test.each(PROGRAMS)('of %s are few enough to be taken in, by line where there are many', name => {
    const program = sampleProgram(name);
    const hierarchy = new Hierarchy(program);
    for (let body = 0; body < program.bodies.length; body++) {
      for (const group of groupsIn(hierarchy.body(body)).filter(
        each => each.children.length > 15,
      )) {
        // The remaining members are lines of the user, labelled with their text.
        expect(group.children.length).toBeLessThanOrEqual(24);
      }
    }
  });

  test.each([
    ['train_step', ['forward loss', 'backward loss', 'lambda, line N']],
    ['gradient_program', ['forward', 'backward']],
  ])('of %s are its forward and its backward pass', (name, names) => {
    const program = sampleProgram(name);
    const children = new Hierarchy(program).body(0).children as readonly Group[];
    expect(
      children.map(child =>
        `${child.kind === 'pass' ? '' : child.transformation} ${child.label}`
          .trim()
          .replace(/line \d+/, 'line N'),
      ),
    ).toEqual(names);
    children.slice(0, 2).forEach((child, index) => {
      const made = Array.from(
        child.equations,
        each => program.transformation(each) === 'transpose',
      );
      expect(made.every(each => each === (index === 1))).toBe(true);
    });
  });

  test.each(REAL_PROGRAMS)(
    'of %s hold every equation once, however short levels are',
    name => {
      const program = sampleProgram(name);
      for (const most of [15, 7, 3]) {
        const hierarchy = new Hierarchy(program, 'auto', true, most);
        program.bodies.forEach((_, body) => {
          for (const group of groupsIn(hierarchy.body(body))) {
            expect(membersOf(group)).toEqual(Array.from(group.equations).sort((a, b) => a - b));
          }
        });
      }
    },
    60_000,
  );

  test('fold siblings of several shapes, which one line makes', () => {
    const [zeros] = new Hierarchy(sampleProgram('adam_loop')).body(0).children as Group[];
    expect([zeros!.kind, zeros!.label, zeros!.copies.length]).toEqual([
      'fold',
      'zeros = broadcast_in_dim',
      6,
    ]);
  });

  test('keep steps of a chain apart', () => {
    const program = sampleProgram('adam_loop');
    const root = new Hierarchy(program).body(0);
    const folds = groupsIn(root).filter(group => group.kind === 'fold');
    for (const fold of folds.filter(each => each.label.includes('broadcast_in_dim'))) {
      const made = fold.copies.map(copy => new Set(Array.from(copy.equations)));
      fold.copies.forEach((copy, index) => {
        const makers = Array.from(copy.equations).flatMap(equation =>
          Array.from(program.operandsOf(equation), operand =>
            operand >= 0 ? program.definers[operand]! : -1,
          ),
        );
        const others = made.filter((_, other) => other !== index);
        expect(makers.some(maker => others.some(set => set.has(maker)))).toBe(false);
      });
    }
  });

  test('name parts of a long level by what they are', () => {
    const program = sampleProgram('wide');
    const labels = program.bodies.flatMap((_, body) =>
      groupsIn(new Hierarchy(program).body(body))
        .filter(group => group.kind === 'lines')
        .map(group => group.label),
    );
    expect(labels.length).toBeGreaterThan(0);
    expect(labels.filter(label => /^\d+–\d+$/.test(label))).toEqual([]);
  });

  test('of a loop that Python unrolled are one fold', () => {
    const [fold, ...others] = new Hierarchy(sampleProgram('pattern')).body(0).children as Group[];
    expect(others).toEqual([]);
    expect([fold!.kind, fold!.copies.length, fold!.copies[7]!.equations.length]).toEqual([
      'fold',
      2500,
      6,
    ]);
  });
});

describe('a level', () => {
  test.each(SMALL)('of %s accounts for every operand', name => {
    const program = sampleProgram(name);
    const hierarchy = new Hierarchy(program);
    const reader = new LevelReader(program);
    for (let body = 0; body < program.bodies.length; body++) {
      for (const group of groupsIn(hierarchy.body(body)).filter(each => each.kind !== 'fold')) {
        const level = reader.level(group);
        const memberOf = new Map(
          level.members.flatMap((child, member) => equationsOf(child).map(each => [each, member])),
        );
        const edges = new Set(
          level.edges.flatMap(edge => edge.values.map(value => `${edge.from} ${edge.to} ${value}`)),
        );
        const outside = new Set(
          [...level.inputs, ...level.arrivals].flatMap(use =>
            use.members.map(member => `${use.value} ${member}`),
          ),
        );
        for (const equation of group.equations) {
          const to = memberOf.get(equation)!;
          for (const value of program.operandsOf(equation).filter(operand => operand >= 0)) {
            const from = memberOf.get(program.definers[value]!);
            if (from === undefined) {
              expect(outside.has(`${value} ${to}`)).toBe(true);
            } else if (from !== to) {
              expect(edges.has(`${from} ${to} ${value}`)).toBe(true);
            }
          }
        }
      }
    }
  });

  test('of a body returns its outputs', () => {
    const program = sampleProgram('control_flow');
    const level = new LevelReader(program).level(new Hierarchy(program).body(0));
    expect(level.returns.map(each => program.valueName(each.operand))).toHaveLength(2);
    expect(level.returns.every(each => each.member >= 0)).toBe(true);
  });
});

describe('repeats', () => {
  test.each([
    [[], []],
    [[1, 2, 3, 4], []],
    [[7, 7, 7, 7], [{ start: 0, period: 1, count: 4 }]],
    [[0, 1, 2, 1, 2, 1, 2, 9], [{ start: 1, period: 2, count: 3 }]],
    [
      [1, 1, 1, 5, 6, 7, 5, 6, 7, 5, 6, 7],
      [
        { start: 0, period: 1, count: 3 },
        { start: 3, period: 3, count: 3 },
      ],
    ],
  ])('in %j', (sequence, expected) => {
    expect(findRepeats(Int32Array.from(sequence), 3)).toEqual(expected);
  });

  test('are none in a long sequence without any', () => {
    const sequence = Int32Array.from({ length: 50_000 }, (_, i) => Math.imul(i, 2654435761) >>> 8);
    expect(findRepeats(sequence, 3)).toEqual([]);
  });
});
