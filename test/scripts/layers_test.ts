import assert from "node:assert/strict";
import { dirname, join, normalize } from "node:path";
import { readSources } from "../fixtures/files/sources.ts";

/** From the highest to the lowest: each layer imports only from itself and from those below it in this list. */
const LAYERS = [
  "main.ts",
  "src/cli",
  "src/router",
  "src/server/http",
  "src/ui",
  "src/server/session",
  "src/worker",
  "src/models",
  "src/engine",
  "src/decoder",
  "src/device",
  "src/hub",
  "src/program",
  "src/graph",
  "src/engine/grammar",
  "src/jinja",
  "src/tokenizer",
  "kernels",
  "src/gpu",
  "src/media/text_normalization",
  "src/wire",
  "src/media",
  "src/base",
];

/** Each file's imports of other program files, including dynamic ones, by its path from the root. */
async function readImports(): Promise<Map<string, readonly string[]>> {
  const imports = new Map<string, readonly string[]>();
  for (const [path, text] of await readSources(["src", "kernels"])) {
    // AssemblyScript is a separate program.
    if (path.includes("/wasm/")) continue;
    const code = text.replaceAll(/\/\*\*[^]*?\*\//g, "");
    const found = code.matchAll(/(?:from|import)\s*\(?\s*"(\.[^"]+\.tsx?)"/g);
    imports.set(path, Array.from(found, ([, to]) => normalize(join(dirname(path), to!))));
  }
  return imports;
}

/** The index of a file's layer: its folder, or the nearest parent folder that is a layer. */
function findLayer(path: string): number {
  const within = LAYERS.filter((layer) => path === layer || path.startsWith(`${layer}/`));
  assert.ok(within.length > 0, `${path} is in a layer`);
  return LAYERS.indexOf(within.reduce((a, b) => b.length > a.length ? b : a));
}

Deno.test("no file imports from a layer above its own", async () => {
  const imports = await readImports();
  const upward = [...imports].flatMap(([from, all]) =>
    all.filter((to) => findLayer(to) < findLayer(from)).map((to) => `${from} → ${to}`)
  );
  assert.ok(imports.size > 500, "the files are found");
  assert.deepEqual(upward, []);
});

Deno.test("no files import each other in a cycle", async () => {
  const imports = await readImports();
  const done = new Set<string>();
  const circles: string[] = [];
  const visit = (path: string, above: readonly string[]) => {
    if (above.includes(path)) circles.push([...above.slice(above.indexOf(path)), path].join(" → "));
    if (done.has(path)) return;
    done.add(path);
    for (const to of imports.get(path) ?? []) visit(to, [...above, path]);
  };
  for (const path of imports.keys()) visit(path, []);
  assert.deepEqual(circles, []);
});

Deno.test("no two folders within a layer import from each other in both directions", async () => {
  const parseFolder = (path: string) => /^(src\/\w+\/\w+)\//.exec(path)?.[1];
  const pairs = new Set<string>();
  for (const [path, all] of await readImports()) {
    const from = parseFolder(path);
    for (const to of all.map(parseFolder)) if (from && to) pairs.add(`${from} → ${to}`);
  }
  const mutual = [...pairs].filter((pair) => {
    const [from, to] = pair.split(" → ");
    return from !== to && pairs.has(`${to} → ${from}`);
  });
  assert.ok(pairs.has("src/graph/cut → src/graph/file"), "the folders are found");
  assert.deepEqual(mutual, []);
});
