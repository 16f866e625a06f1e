import { LabIcon } from '@jupyterlab/ui-components';

export const programsIcon = new LabIcon({
  name: 'pellucid:programs',
  svgstr: svg('M8 2v3M8 5 4 9M8 5l4 4M2.5 9h3v4h-3zM10.5 9h3v4h-3z'),
});
export const devicesIcon = new LabIcon({
  name: 'pellucid:devices',
  svgstr: svg('M2 2h5v5H2zM9 2h5v5H9zM2 9h5v5H2zM9 9h5v5H9z'),
});

function svg(path: string): string {
  return (
    '<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 16 16">' +
    `<path class="jp-icon3" fill="none" stroke="#616161" stroke-width="1.3" d="${path}"/></svg>`
  );
}
