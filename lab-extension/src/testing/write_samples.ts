/**
 * Runs Python to write the sample records before the tests, so that both sides test the same bytes.
 */

import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const repository = fileURLToPath(new URL('../../..', import.meta.url));
const folder = fileURLToPath(new URL('../../.samples', import.meta.url));

export default function setup(): void {
  const python = process.env['PYTHON'] ?? 'python3';
  const command = ['-m', 'tests.introspect.sample_records', folder];
  execFileSync(python, command, { cwd: repository, stdio: 'inherit' });
}
