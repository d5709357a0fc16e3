/**
 * `deno task compile [target…]`: one executable of Hearth for this machine, or for each target named; `all` names
 * every one. They hold the built-in models, the pages and the kernels, and need no Deno.
 *
 * @module
 */
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** What `deno compile` builds for. */
export const TARGETS = [
  "x86_64-unknown-linux-gnu",
  "aarch64-unknown-linux-gnu",
  "x86_64-apple-darwin",
  "aarch64-apple-darwin",
  "x86_64-pc-windows-msvc",
] as const;

/** What the program reads or starts at run time, and the compiler therefore does not find by itself. */
export const INCLUDES = [
  "src/worker/worker.ts",
  "src/models/encoder_lane.ts",
  "src/models/vision_thread.ts",
  "models",
] as const;

/** Folders of packages of which a few files are used: by a module in the folder, what is kept. */
export const KEPT_FILES: Readonly<Record<string, readonly string[]>> = {
  // Pictures are decoded only.
  "@jsquash/avif/codec/dec/avif_dec.js": ["avif_dec.js", "avif_dec.wasm"],
  "@jsquash/avif/codec/enc/avif_enc.js": [],
  "@jsquash/jpeg/codec/dec/mozjpeg_dec.js": ["mozjpeg_dec.js", "mozjpeg_dec.wasm"],
  "@jsquash/jpeg/codec/enc/mozjpeg_enc.js": [],
  "@jsquash/webp/codec/dec/webp_dec.js": ["webp_dec.js", "webp_dec.wasm"],
  "@jsquash/webp/codec/enc/webp_enc.js": [],
  // The package holds four builds of ONNX Runtime, each in several dresses.
  "onnxruntime-web/jspi": ["ort.jspi.bundle.min.mjs", "ort-wasm-simd-threaded.jspi.wasm"],
  "swagger-ui-dist/swagger-ui.css": [
    "swagger-ui-bundle.js",
    "swagger-ui.css",
    "package.json",
    "LICENSE",
    "NOTICE",
  ],
};

const repository = fileURLToPath(new URL("../", import.meta.url));

/** The arguments of `deno` for one executable. Paths are relative to the repository's root. */
export function compileArguments(output: string, target?: string): string[] {
  return [
    "compile",
    "--allow-all",
    "--no-check",
    "--app-name=hearth",
    "--exclude-unused-npm",
    ...INCLUDES.map((path) => `--include=${path}`),
    ...listUnused().map((path) => `--exclude=${path}`),
    ...(target === undefined ? [] : [`--target=${target}`]),
    `--output=${output}`,
    "main.ts",
  ];
}

/** The files that {@linkcode KEPT_FILES} leaves out, by absolute path. */
function listUnused(): string[] {
  return Object.entries(KEPT_FILES).flatMap(([module, kept]) => {
    const folder = dirname(fileURLToPath(import.meta.resolve(module)));
    const names = [...Deno.readDirSync(folder)].map(({ name }) => name);
    return names.filter((name) => !kept.includes(name)).map((name) => join(folder, name));
  });
}

async function compile(output: string, target?: string): Promise<void> {
  const child = new Deno.Command(Deno.execPath(), {
    args: compileArguments(output, target),
    cwd: repository,
  }).spawn();
  const { code } = await child.status;
  if (code !== 0) Deno.exit(code);
}

if (import.meta.main) {
  const targets = Deno.args.includes("all") ? TARGETS : Deno.args;
  const unknown = targets.find((target) => !TARGETS.some((known) => known === target));
  if (unknown !== undefined) {
    // deno-lint-ignore no-console -- a command of its own
    console.error(`There is no target "${unknown}"; there are ${TARGETS.join(", ")}, and all.`);
    Deno.exit(2);
  }
  if (targets.length === 0) await compile("dist/hearth");
  for (const target of targets) await compile(`dist/hearth-${target}`, target);
}
