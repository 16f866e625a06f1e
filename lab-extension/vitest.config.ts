import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['src/**/*.spec.ts'],
    globalSetup: ['src/testing/write_samples.ts'],
    testTimeout: 30_000, // programs of 10,000 equations, on machines that do other things meanwhile
  },
});
