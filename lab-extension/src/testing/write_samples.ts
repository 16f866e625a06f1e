/** Lets Python write the sample records before the tests run, so both sides test the same bytes. */

import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const script = fileURLToPath(
  new URL('../../../tests/introspect/sample_records.py', import.meta.url),
);
const folder = fileURLToPath(new URL('../../.samples', import.meta.url));

export default function setup(): void {
  execFileSync(process.env['PYTHON'] ?? 'python3', [script, folder], { stdio: 'inherit' });
}
