/** Why devices exchange, in words. */

import type { CollectiveRecord } from '../../generated/introspect';

export const REASONS: Readonly<Record<CollectiveRecord['reason'], string>> = {
  written: 'as written',
  contraction: 'partial results are combined',
  reshard: 'resharding',
  full_replication: 'full replication',
  unknown: 'reason not known',
};
