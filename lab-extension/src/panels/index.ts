/** Panels of the side bar, in order: one folder and one line each. */

import { devices } from './devices';
import type { Panel } from './panel';
import { programs } from './programs';

export const PANELS: readonly Panel[] = [programs, devices];
