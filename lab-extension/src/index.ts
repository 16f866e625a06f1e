// The plugins of this extension; each is a file in `plugins`.

import { cellLines } from './plugins/cell_lines';
import { explorer } from './plugins/explorer';
import { panels } from './plugins/panels';
import { records } from './plugins/records';

export default [records, explorer, panels, cellLines];
