/** Entry points for wrappers of the viewer: lab extension, static HTML, anywidget. */

export { growing, mount, type Mounted, type View, type ViewOptions } from './view';
export { readRecord, type AnyRecord } from '../records/reading';
export { RecordError } from '../records/columns';
