// Bundle the dashboard into the Python package: file names carry a hash of what is in them, and each is gzipped too.
import { build } from "esbuild";
import { createHash } from "node:crypto";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const here = dirname(fileURLToPath(import.meta.url));
const place = process.argv[2] ?? join(here, "..", "src", "rota", "api", "static");

const built = await build({
  entryPoints: [join(here, "src", "main.tsx")],
  bundle: true,
  minify: true,
  write: false,
  outdir: place,
  format: "esm",
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  logLevel: "warning",
});

await rm(place, { recursive: true, force: true });
await mkdir(place, { recursive: true });

async function keep(stem, ending, contents) {
  const hash = createHash("sha256").update(contents).digest("hex").slice(0, 12);
  const name = `${stem}-${hash}.${ending}`;
  await writeFile(join(place, name), contents);
  await writeFile(join(place, `${name}.gz`), gzipSync(contents, { level: 9 }));
  return name;
}

const names = { icon: await keep("icon", "svg", await readFile(join(here, "src", "icon.svg"))) };
for (const file of built.outputFiles) {
  const ending = file.path.endsWith(".css") ? "css" : "js";
  names[ending] = await keep("rota", ending, file.contents);
}
for (const page of ["index.html", "closed.html"]) {
  const text = await readFile(join(here, "src", page), "utf8");
  await writeFile(join(place, page), text.replace(/\{(\w+)\}/g, (_, name) => `assets/${names[name]}`));
}
