/** Texts of the reasons for collectives. */

import type { CollectiveRecord } from '../../generated/introspect';

export const REASONS: Readonly<Record<CollectiveRecord['reason'], string>> = {
  written: 'as written',
  contraction: 'partial results are combined',
  reshard: 'resharding',
  full_replication: 'full replication',
  unknown: 'reason not known',
};
