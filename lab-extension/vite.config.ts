import { transformWithEsbuild, defineConfig, type Plugin } from 'vite';

/** Vite leaves the spaces in modules that are libraries; this one is embedded in every output. */
const squeeze = (): Plugin => ({
  name: 'squeeze',
  enforce: 'post',
  async generateBundle(_, bundle) {
    for (const chunk of Object.values(bundle)) {
      if (chunk.type === 'chunk') {
        const result = await transformWithEsbuild(chunk.code, chunk.fileName, {
          minify: true,
          legalComments: 'none',
          target: 'es2022',
        });
        chunk.code = result.code;
      }
    }
  },
});

/** One file with everything in it, for HTML outputs and for anywidget. */
export default defineConfig({
  plugins: [squeeze()],
  build: {
    outDir: '../viz/pellucid_viz/static',
    emptyOutDir: true,
    target: 'es2022',
    sourcemap: false,
    lib: { entry: 'src/standalone/index.ts', formats: ['es'], fileName: () => 'viewer.js' },
  },
  worker: { format: 'es', plugins: () => [squeeze()] },
});
