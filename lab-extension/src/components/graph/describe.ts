/** Descriptions of boxes for tooltips, the inspector and screen readers. */

import type { Program } from '../../records/program';
import { counted, oneLine, whole } from '../format';
import type { Box } from './box';

/** Name and type of an operand: `h:f32[32,128]`. */
export function operandText(program: Program, operand: number): string {
  return operand >= 0
    ? `${oneLine(program.valueName(operand), 60)}:${oneLine(program.typeOf(operand).text, 60)}`
    : oneLine(program.operandName(operand), 40);
}

/** An equation on one line in jaxpr syntax, with the user's names. */
export function equationText(program: Program, equation: number): string {
  const results = Array.from(program.resultsOf(equation), value => operandText(program, value));
  const params = program.params(equation).map(([name, text]) => `${name}=${text}`);
  const operands = Array.from(program.operandsOf(equation), operand =>
    program.operandName(operand),
  );
  const settings = params.length > 0 ? `[${params.join(' ')}]` : '';
  const left = results.length > 0 ? `${results.join(' ')} = ` : '';
  return oneLine(`${left}${program.primitive(equation)}${settings} ${operands.join(' ')}`, 400);
}

/** Place of an equation: `In[3], line 4, in dense`. */
export function placeText(program: Program, equation: number): string {
  const span = program.spanOf(equation);
  if (span === null) {
    return '';
  }
  const source = oneLine(program.sources[span.source]?.name ?? '', 60);
  const inside = span.function === '' ? '' : `, in ${oneLine(span.function, 60)}`;
  return `${source}, line ${span.line}${inside}`;
}

/** One sentence that describes a box to screen readers. */
export function boxLabel(program: Program, box: Box): string {
  switch (box.kind) {
    case 'equation':
      return [equationText(program, box.equation), placeText(program, box.equation)]
        .filter(Boolean)
        .join('; ');
    case 'call':
    case 'region':
    case 'group': {
      const tag = box.tag === '' ? '' : `${box.tag} `;
      return `${tag}${box.title || 'call'}, ${box.subtitle || counted(box.equations.length, 'equation')}`;
    }
    case 'fold':
      return `${box.title}, ×${whole(box.copies)} alike, ${box.subtitle}`;
    case 'input':
      return `input ${box.operands.map(operand => operandText(program, operand)).join(', ')}`;
    case 'output':
      return `returns ${box.operands.map(operand => operandText(program, operand)).join(', ')}`;
    case 'arrival':
      return `enters: ${operandText(program, box.operands[0]!)}`;
    case 'departure':
      return `leaves: ${operandText(program, box.operands[0]!)}`;
  }
}
