/** The panels of the side bar, in order: one folder and one line for each. */

import { devices } from './devices';
import type { Panel } from './panel';
import { programs } from './programs';

export const PANELS: readonly Panel[] = [programs, devices];
