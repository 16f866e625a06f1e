import { arrayStyle } from '../../components/sharding/array_view';
import { definePanel } from '../panel';
import { devicesContent } from './content';
import { topologyStyle } from './topology';

export const devices = definePanel({
  name: 'devices',
  label: 'Devices and mesh',
  icon: 'M2 2h5v5H2zM9 2h5v5H9zM2 9h5v5H2zM9 9h5v5H9z',
  style: arrayStyle + topologyStyle,
  create: host => state =>
    devicesContent(state, {
      onFree: array => host.run(() => host.ask({ kind: 'free_array', array: array.id })),
      onLetGo: () => host.run(() => host.ask({ kind: 'let_go' })),
      onOpenMesh: mesh => host.run(() => host.open(mesh, mesh.name)),
    }),
});
