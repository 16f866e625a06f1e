// Plugins of this extension, one per file in `plugins`.

import { cellLines } from './plugins/cell_lines';
import { debuggerPlugin } from './plugins/debugger';
import { explorer } from './plugins/explorer';
import { launcher } from './plugins/launcher';
import { lineTimesPlugin } from './plugins/line_times';
import { panels } from './plugins/panels';
import { perfetto } from './plugins/perfetto';
import { records } from './plugins/records';
import { settings } from './plugins/view_settings';

export default [
  settings,
  records,
  explorer,
  panels,
  launcher,
  cellLines,
  lineTimesPlugin,
  perfetto,
  debuggerPlugin,
];
