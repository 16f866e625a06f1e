// Generated from all schema modules by tools/generate_types.py. Do not edit.

import type { ArrayValuesRecord, CompiledRecord, DiffRecord, ErrorRecord, FunctionRecord, FunctionShardingRecord, KernelGridsRecord, KernelMemoriesRecord, KernelTimelinesRecord, LadderRecord, LensRecord, MemoryRecord, MissRecord, MissesRecord, ProgramRecord, ShardingRecord, WhatIfRecord } from "./introspect";
import type { DivergenceRecord, FindingRecord, GradientRecord, RecordingRecord, UnequalRunsRecord } from "./debugger";
import type { ProfileComparisonRecord, ProfileRecord } from "./profiler";

/** Every record that can be shown by itself. */
export type AnyRecord =
  | ArrayValuesRecord
  | CompiledRecord
  | DiffRecord
  | DivergenceRecord
  | ErrorRecord
  | FindingRecord
  | FunctionRecord
  | FunctionShardingRecord
  | GradientRecord
  | KernelGridsRecord
  | KernelMemoriesRecord
  | KernelTimelinesRecord
  | LadderRecord
  | LensRecord
  | MemoryRecord
  | MissRecord
  | MissesRecord
  | ProfileComparisonRecord
  | ProfileRecord
  | ProgramRecord
  | RecordingRecord
  | ShardingRecord
  | UnequalRunsRecord
  | WhatIfRecord;

/** The kinds of these records. */
export const VIEW_KINDS: readonly AnyRecord["kind"][] = [
  "array_values",
  "compiled",
  "diff",
  "divergence",
  "error",
  "finding",
  "function",
  "function_sharding",
  "gradient",
  "kernel_grids",
  "kernel_memories",
  "kernel_timelines",
  "ladder",
  "lens",
  "memory",
  "miss",
  "misses",
  "profile",
  "profile_comparison",
  "program",
  "recording",
  "sharding",
  "unequal_runs",
  "what_if",
];
