// Run the unit tests: each is bundled on its own, so that Node's own runner needs to know no TypeScript.
import { build } from "esbuild";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const source = join(dirname(fileURLToPath(import.meta.url)), "src");
const outdir = mkdtempSync(join(tmpdir(), "rota-web-"));
const entryPoints = readdirSync(source, { recursive: true })
  .filter((name) => /\.test\.tsx?$/.test(name))
  .map((name) => join(source, name));
await build({
  entryPoints,
  outdir,
  bundle: true,
  platform: "node",
  format: "esm",
  outExtension: { ".js": ".mjs" },
  jsx: "automatic",
  jsxImportSource: "preact",
  logLevel: "warning",
});
const tests = readdirSync(outdir, { recursive: true })
  .filter((name) => name.endsWith(".mjs"))
  .map((name) => join(outdir, name));
const ran = spawnSync(process.execPath, ["--test", "--test-reporter=dot", ...tests], { stdio: "inherit" });
rmSync(outdir, { recursive: true });
process.exit(ran.status ?? 1);
