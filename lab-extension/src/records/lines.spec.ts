import { describe, expect, test } from 'vitest';
import type { LensRecord, ProgramRecord } from '../generated/introspect';
import { PROGRAMS, sample, sampleProgram } from '../testing/samples';
import { lineText } from './lines';
import { listingOf } from './listing';
import { Program } from './program';
import { SourceLines } from './source_lines';

describe('the text of a program', () => {
  test.each(PROGRAMS)('%s has one line for each equation', name => {
    const program = sampleProgram(name);
    const listing = listingOf(program);
    const seen = new Set<number>();
    for (let line = 0; line < listing.count; line++) {
      for (const equation of Array.from(listing.equations(line))) {
        expect(seen.has(equation)).toBe(false);
        seen.add(equation);
        expect(listing.linesOf(equation)).toEqual([line]);
      }
      expect(listing.foldEnd(line)).toBeLessThanOrEqual(listing.count);
    }
    expect(seen.size).toBe(program.equationCount);
  });

  test('reads as a jaxpr with the user’s names', () => {
    const listing = listingOf(sampleProgram('mlp'));
    const text = Array.from({ length: listing.count }, (_, line) => lineText(listing, line));
    expect(text[0]).toBe('{ lambda ;');
    expect(text).toContain('hidden:f32[32,128] = tanh i');
    expect(text.find(line => line.includes('reduce_max'))).toBe(
      'n:f32[32] = reduce_max[axes=(1,)] logits',
    );
    expect(text.at(-1)).toBe('in (z,) }');
  });

  test('writes a shared body once', () => {
    const listing = listingOf(sampleProgram('transformer_calls'));
    const text = Array.from({ length: listing.count }, (_, line) => lineText(listing, line));
    expect(text.filter(line => line.includes('rsqrt'))).toHaveLength(2);
    expect(text.filter(line => /layer as in line \d+/.test(line))).toHaveLength(11);
  });

  test('is the printer’s own where the record has it', () => {
    const { programs } = sample<LensRecord>('lens');
    const program = new Program(programs[1]!);
    const listing = listingOf(program);
    expect(lineText(listing, 0)).toBe('module @jit_loss {');
    const [line] = listing.linesOf(3);
    expect(lineText(listing, line!)).toContain('stablehlo.tanh');
    const kinds = listing.tokens(line!).map(token => token.kind);
    expect(kinds).toEqual(expect.arrayContaining(['name', 'primitive', 'type']));
  });

  test('loses nothing of a printed line', () => {
    const { programs } = sample<LensRecord>('lens');
    for (const record of programs.slice(1)) {
      const listing = listingOf(new Program(record));
      record
        .listing!.text.split('\n')
        .forEach((text, line) => expect(lineText(listing, line)).toBe(text));
    }
  });
});

describe('the user’s lines', () => {
  test('have their own equations and those of the functions they call', () => {
    const program = sampleProgram('mlp');
    const source = new SourceLines(program);
    const lineWith = (text: string): number =>
      Array.from({ length: source.count }, (_, line) => line).find(line =>
        lineText(source, line).includes(text),
      )!;
    const hidden = lineWith('hidden = jnp.tanh');
    expect(source.own(hidden).map(each => program.primitive(each))).toEqual(['tanh']);
    expect(Array.from(source.equations(hidden), each => program.primitive(each))).toEqual([
      'dot_general',
      'broadcast_in_dim',
      'add',
      'tanh',
    ]);
    expect(source.linesOf(0)[0]).toBe(lineWith('return x @ layer'));
  });

  test('show the columns of one equation', () => {
    const program = sampleProgram('mlp');
    const source = new SourceLines(program);
    source.mark(0);
    const [line] = source.linesOf(0);
    const marked = source.tokens(line!).filter(token => token.kind === 'marked');
    expect(marked.map(token => token.text)).toEqual(['x @ layer["w"]']);
    expect(lineText(source, line!)).toBe('    return x @ layer["w"] + layer["b"]');
    source.mark(-1);
    expect(source.tokens(line!).some(token => token.kind === 'marked')).toBe(false);
  });

  test('are named where their text was not kept', () => {
    const record = sample<ProgramRecord>('mlp');
    const sources = record.sources.map(source => ({ ...source, lines: null }));
    const source = new SourceLines(new Program({ ...record, sources }));
    expect(lineText(source, 0)).toBe('In[3]');
    expect(lineText(source, 1)).toBe('(text of the line was not kept)');
    expect(source.own(1).length).toBeGreaterThan(0);
  });
});
