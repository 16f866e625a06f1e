import eslint from '@eslint/js';
import tseslint from 'typescript-eslint';

export default tseslint.config(
  { ignores: ['src/generated/**', 'lib/**', 'dist/**'] },
  eslint.configs.recommended,
  tseslint.configs.strict,
  {
    rules: {
      // Records come from files that anybody may have written: nothing of them becomes markup or code.
      'no-restricted-properties': [
        'error',
        { property: 'innerHTML', message: 'Use textContent and elements.' },
        { property: 'outerHTML', message: 'Use textContent and elements.' },
        { property: 'insertAdjacentHTML', message: 'Use textContent and elements.' },
      ],
      'no-eval': 'error',
      'no-implied-eval': 'error',
      'no-new-func': 'error',
      eqeqeq: 'error',
      // Indices into typed arrays and columns are in range by construction.
      '@typescript-eslint/no-non-null-assertion': 'off',
    },
  },
);
