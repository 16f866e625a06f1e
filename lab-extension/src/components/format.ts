/** Formatting of numbers and texts. */

const LARGE_UNITS = ['', 'K', 'M', 'G', 'T', 'P', 'E'];
const BYTE_UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];

/** A number to three digits with a unit: `1.5 MFLOP`, `12 KiB`, `340`. */
export function quantity(value: number, unit: string): string {
  if (!Number.isFinite(value)) {
    return '–';
  }
  if (unit === 'B') {
    return scaled(value, 1024, BYTE_UNITS, ' ');
  }
  if (unit === 'us') {
    return value >= 1000 ? `${digits(value / 1000)} ms` : `${digits(value)} µs`;
  }
  const name = unit.replace('flop', 'FLOP');
  const text = scaled(value, 1000, LARGE_UNITS, name === '' ? '' : ' ');
  return `${text}${name}`;
}

function scaled(value: number, base: number, units: readonly string[], space: string): string {
  let index = 0;
  let rest = Math.abs(value);
  while (rest >= base * 0.9995 && index < units.length - 1) {
    rest /= base;
    index++;
  }
  return `${value < 0 ? '−' : ''}${digits(rest)}${space}${units[index]}`;
}

function digits(value: number): string {
  if (value === Math.round(value) && value < 1000) {
    return String(value);
  }
  return value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
}

/** An integer with thousands separators: `11,203`. */
export function whole(value: number): string {
  return String(value).replace(/\B(?=(\d{3})+$)/g, ',');
}

/** A count with its noun: `1 equation`, `11,203 equations`. */
export function counted(count: number, noun: string): string {
  return `${whole(count)} ${noun}${count === 1 ? '' : 's'}`;
}

const CONTROL = /[\p{Cc}\u2028\u2029]/gu;
const DIRECTION = /[\u202a-\u202e\u2066-\u2069]/g;

/**
 * `text` on one line, cut to `length` characters. Control characters become visible and direction
 * overrides are
 * removed, so that a name can't disturb the text around it.
 */
export function oneLine(text: string, length = 200): string {
  const clean = text.replace(CONTROL, '␣').replace(DIRECTION, '');
  const characters = clean.length > length ? Array.from(clean.slice(0, length * 2)) : null;
  return characters !== null && characters.length > length
    ? `${characters.slice(0, length - 1).join('')}…`
    : clean;
}
