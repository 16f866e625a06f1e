/** Sample records, as Python wrote them. */

import { readFileSync } from 'node:fs';
import type { ProgramRecord } from '../generated/introspect';
import { Program } from '../records/program';

export function sampleText(name: string): string {
  return readFileSync(new URL(`../../.samples/${name}.json`, import.meta.url), 'utf-8');
}

export function sampleProgram(name: string): Program {
  return new Program(JSON.parse(sampleText(name)) as ProgramRecord);
}
