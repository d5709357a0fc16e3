import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import config from "../../deno.json" with { type: "json" };
import scripts from "../../scripts/deno.json" with { type: "json" };
import { INCLUDES } from "../../scripts/compile.ts";
import tests from "../deno.json" with { type: "json" };

const REPOSITORY = fileURLToPath(new URL("../../", import.meta.url));

interface GraphModule {
  readonly specifier: string;
  readonly npmPackage?: string;
  /** `code` is absent if only types are imported. */
  readonly dependencies?: readonly {
    readonly code?: { readonly specifier: string };
    readonly isDynamic?: boolean;
  }[];
}

interface Imports {
  /** Modules by URL. */
  readonly modules: ReadonlySet<string>;
  readonly packages: ReadonlySet<string>;
}

/**
 * The imports of an entry point's modules, without type-only ones.
 *
 * @param options.isStatic Excludes dynamic imports.
 */
async function readImports(
  entry: string,
  { isStatic = false }: { readonly isStatic?: boolean } = {},
): Promise<Imports> {
  const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["info", "--json", entry],
    cwd: REPOSITORY,
  }).output();
  assert.ok(success, new TextDecoder().decode(stderr));
  const { roots, modules, redirects } = JSON.parse(new TextDecoder().decode(stdout));
  const bySpecifier = new Map<string, GraphModule>(
    modules.map((module: GraphModule) => [module.specifier, module]),
  );
  const packages = new Set<string>();
  const reached = new Set<string>(roots);
  for (const specifier of reached) {
    const { npmPackage, dependencies = [] } = bySpecifier.get(redirects[specifier] ?? specifier) ??
      {};
    if (npmPackage !== undefined) packages.add(npmPackage);
    for (const { code, isDynamic = false } of dependencies) {
      if (code !== undefined && !(isStatic && isDynamic)) reached.add(code.specifier);
    }
  }
  return { modules: reached, packages };
}

/** The packages that a start of the entry point fetches: those of all its modules, also of dynamic imports. */
async function readPackages(entry: string): Promise<ReadonlySet<string>> {
  return (await readImports(entry)).packages;
}

Deno.test("the first start fetches the packages of every thread, so that later starts work without a network", async () => {
  const first = (await readPackages("main.ts")).union(await readPackages("src/worker/worker.ts"));
  assert.ok([...first].some((name) => name.startsWith("onnxruntime-web@")), String([...first]));
  for (const entry of INCLUDES.filter((path) => path.endsWith(".ts"))) {
    assert.deepEqual([...(await readPackages(entry)).difference(first)], [], entry);
  }
});

Deno.test("the server answers before any large package is fetched", async () => {
  const names = [...await readPackages("main.ts")].map((name) => name.replace(/(?!^)@.*/, ""));
  assert.ok(names.includes("hono"), String(names));
  for (const large of ["onnxruntime-web", "@huggingface/transformers"]) {
    assert.ok(!names.includes(large), `main.ts imports ${large}`);
  }
});

/** Modules that a kind of model does not need: each would delay the start. */
const UNNEEDED: Readonly<Record<string, readonly string[]>> = {
  "src/models/embedding/embedding.ts": [
    "src/engine/",
    "src/engine/grammar/",
    "src/models/text/chat/",
  ],
  "src/models/embedding/rerank.ts": ["src/engine/", "src/engine/grammar/", "src/models/text/chat/"],
  "main.ts": ["src/hub/", "src/server/http/", "npm:zod@", "node:v8", "node:vm"],
  "src/cli/serve.ts": [
    "src/hub/download.ts",
    "src/hub/repository.ts",
    "src/server/http/app.ts",
    "npm:zod@",
  ],
  "src/server/http/server.ts": ["npm:ws@", "npm:prom-client@"],
  "src/worker/worker.ts": ["src/device/cpu/", "src/device/webgpu/", "src/graph/cut/"],
  "src/models/tts/tts.ts": [
    "src/media/audio.ts",
    "src/media/text_normalization/",
    "src/models/text/chat/",
  ],
  "src/models/tts/non_autoregressive.ts": ["src/models/text/chat/", "src/models/text/calls/"],
  "src/models/matting/matting.ts": ["src/engine/", "src/models/text/chat/"],
};

for (const [entry, unneeded] of Object.entries(UNNEEDED)) {
  Deno.test(`${entry} loads nothing that it does not need`, async () => {
    const { modules } = await readImports(entry, { isStatic: true });
    assert.ok([...modules].some((module) => module.endsWith(entry)), [...modules].join());
    for (const part of unneeded) {
      const isPart = (module: string) => module.startsWith(part) || module.includes(`/${part}`);
      assert.deepEqual([...modules].filter(isPart), []);
    }
  });
}

Deno.test("packages that only tests and scripts use are not packages of the program", () => {
  const own = new Set(Object.keys(config.imports));
  for (const { imports } of [scripts, tests]) {
    assert.deepEqual(Object.keys(imports).filter((name) => own.has(name)), []);
  }
  // Without this setting, Deno fetches every package of the lock file at a first start.
  assert.ok(config.unstable.includes("npm-lazy-caching"));
});
