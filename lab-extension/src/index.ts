// The plugins of this extension; each is a file in `plugins`.

import { programs } from './plugins/programs';

export default [programs];
