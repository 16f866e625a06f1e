/** Sample records, written by Python. */

import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import type { ProgramRecord } from '../generated/introspect';
import { Program } from '../records/program';

export const PROGRAMS = [
  'mlp',
  'transformer',
  'transformer_calls',
  'transformer_unscoped',
  'control_flow',
  'hostile',
  'empty',
  'nothing',
  'equations_10k',
  'equations_10k_unscoped',
  'wide',
  'train_step',
  'gradient_program',
  'pattern',
];

/** Programs of realistic size: training steps, samplers, solvers, programs on meshes. */
export const REAL_PROGRAMS = [
  'adam_loop',
  'decoder',
  'diffusion',
  'mcmc',
  'ode_adjoint',
  'gnn',
  'reinforcement',
  'mixture_of_experts',
  'ring_attention',
  'vit',
  'generation',
  'molecular_dynamics',
];

export const SHARDINGS = [
  'simple',
  'replicated',
  'uneven',
  'unreduced',
  'vector',
  'scalar',
  '4d',
  '4096',
].map(name => `sharding_${name}`);

/** JSON text of the sample record `name`. */
export function sampleText(name: string): string {
  return readFileSync(resolve('.samples', `${name}.json`), 'utf-8');
}

/** The sample record `name`. */
export function sample<T>(name: string): T {
  return JSON.parse(sampleText(name)) as T;
}

/** The sample record `name` as a Program. */
export function sampleProgram(name: string): Program {
  return new Program(sample<ProgramRecord>(name));
}
