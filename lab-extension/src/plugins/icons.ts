import { LabIcon } from '@jupyterlab/ui-components';

import { programs } from '../panels/programs';

/** Icon from a 16 by 16 line drawing. */
export function lineIcon(name: string, path: string): LabIcon {
  return new LabIcon({
    name: `pellucid:${name}`,
    svgstr:
      '<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 16 16">' +
      `<path class="jp-icon3" fill="none" stroke="#616161" stroke-width="1.3" d="${path}"/></svg>`,
  });
}

export const programsIcon = lineIcon(programs.name, programs.icon);
