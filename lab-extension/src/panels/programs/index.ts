import { definePanel } from '../panel';
import { FunctionsList, functionsStyle, VIEWS } from '../../components/facts/functions_list';

export const programs = definePanel({
  name: 'programs',
  label: 'Programs',
  icon: 'M8 2v3M8 5 4 9M8 5l4 4M2.5 9h3v4h-3zM10.5 9h3v4h-3z',
  style: functionsStyle,
  create: host => {
    const list = new FunctionsList({
      onOpen: (name, entry, view) => {
        host.run(async () => {
          const record = await host.ask({ kind: 'show_program', entry: entry.id, view });
          await host.open(record, `${VIEWS[view]} · ${name}`);
        });
      },
    });
    return state => list.content(state);
  },
});
