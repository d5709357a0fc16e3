/**
 * `deno task compile [target…]`: builds an executable of Hearth for this machine, or for each given target; `all` means
 * every target. Executables contain the built-in models, the pages and the kernels, and need no Deno. With
 * `--permissive` they do not contain eSpeak NG, whose licence is the GPL; requests to Kokoro then fail with an error
 * that says so.
 *
 * @module
 */
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** Targets of `deno compile`. */
const TARGETS = [
  "x86_64-unknown-linux-gnu",
  "aarch64-unknown-linux-gnu",
  "x86_64-apple-darwin",
  "aarch64-apple-darwin",
  "x86_64-pc-windows-msvc",
] as const;

/** Files that are read or started as threads at run time, which `deno compile` does not find by itself. */
export const INCLUDES = [
  "kernels/cpu/kernel_thread.ts",
  "src/device/cpu/pack_thread.ts",
  "src/worker/worker.ts",
  "src/server/http/body/json_thread.ts",
  "src/cli/doctor_thread.ts",
  "src/models/matting/codec_thread.ts",
  "src/models/images/image_thread.ts",
  "src/models/documents/document_thread.ts",
  "models",
] as const;

/** A package folder from which only a few files are embedded. */
interface KeptFolder {
  /** A module of the package. */
  readonly module: string;
  /** How many levels this folder is above the folder of the module. */
  readonly up?: number;
  /** Names of the files and folders in it that are used. */
  readonly kept: readonly string[];
}

/** The embedded parts of large packages; other packages are embedded whole. */
export const KEPT_FOLDERS: readonly KeptFolder[] = [
  // These packages are only used to decode images and documents.
  { module: "@jsquash/avif/codec/dec/avif_dec.js", kept: ["avif_dec.js", "avif_dec.wasm"] },
  { module: "@jsquash/avif/codec/enc/avif_enc.js", kept: [] },
  {
    module: "@jsquash/jpeg/codec/dec/mozjpeg_dec.js",
    kept: ["mozjpeg_dec.js", "mozjpeg_dec.wasm"],
  },
  { module: "@jsquash/jpeg/codec/enc/mozjpeg_enc.js", kept: [] },
  { module: "@jsquash/webp/codec/dec/webp_dec.js", kept: ["webp_dec.js", "webp_dec.wasm"] },
  { module: "@jsquash/webp/codec/enc/webp_enc.js", kept: [] },
  { module: "libheif-js/libheif-wasm/libheif.js", kept: ["libheif.js", "libheif.wasm"] },
  {
    module: "libheif-js/libheif-wasm/libheif.js",
    up: 1,
    kept: ["libheif-wasm", "package.json", "LICENSE"],
  },
  { module: "@embedpdf/pdfium", kept: ["index.js", "pdfium.wasm"] },
  // One of many codecs (Opus), in one of several builds.
  { module: "@evan/wasm/target/opus/deno.js", kept: ["deno.js"] },
  { module: "@evan/wasm/target/opus/deno.js", up: 1, kept: ["opus"] },
  { module: "@evan/wasm/target/opus/deno.js", up: 2, kept: ["target", "package.json", "LICENSE"] },
  { module: "libflacjs/dist/libflac.js", kept: ["libflac.js"] },
  { module: "libflacjs/dist/libflac.js", up: 1, kept: ["dist", "package.json", "LICENSE"] },
  { module: "wasm-media-encoders", up: 1, kept: ["es"] },
  { module: "wasm-media-encoders", up: 2, kept: ["dist", "package.json", "LICENSE"] },
  { module: "@huggingface/transformers", kept: ["transformers.node.mjs"] },
  {
    module: "@huggingface/transformers",
    up: 1,
    kept: ["dist", "package.json", "LICENSE"],
  },
  // The package holds four builds of ONNX Runtime, each in several variants.
  {
    module: "onnxruntime-web/jspi",
    kept: ["ort.jspi.bundle.min.mjs", "ort-wasm-simd-threaded.jspi.wasm"],
  },
  {
    module: "swagger-ui-dist/swagger-ui.css",
    kept: ["swagger-ui-bundle.js", "swagger-ui.css", "package.json", "LICENSE", "NOTICE"],
  },
];

/** Packages that `--permissive` leaves out, because they contain code under the GPL. */
const PERMISSIVE = ["phonemizer"] as const;

const repository = fileURLToPath(new URL("../", import.meta.url));

/** The arguments of `deno` for one executable. Paths are relative to the repository's root. */
export function compileArguments(
  output: string,
  target?: string,
  { isPermissive = false }: { readonly isPermissive?: boolean } = {},
): string[] {
  return [
    "compile",
    "--allow-all",
    "--no-check",
    "--app-name=hearth",
    "--exclude-unused-npm",
    ...INCLUDES.map((path) => `--include=${path}`),
    ...listUnused().map((path) => `--exclude=${path}`),
    ...(isPermissive ? PERMISSIVE.map((module) => `--exclude=${resolveFolder(module)}`) : []),
    ...(target === undefined ? [] : [`--target=${target}`]),
    `--output=${output}`,
    "main.ts",
  ];
}

/** The files and folders that {@linkcode KEPT_FOLDERS} leaves out, by absolute path. */
function listUnused(): string[] {
  return KEPT_FOLDERS.flatMap(({ module, up = 0, kept }) => {
    const path = fileURLToPath(import.meta.resolve(module));
    const folder = join(dirname(path), ...Array(up).fill(".."));
    const names = [...Deno.readDirSync(folder)].map(({ name }) => name);
    return names.filter((name) => !kept.includes(name)).map((name) => join(folder, name));
  });
}

/** The folder of a package whose main module is in `dist`. */
function resolveFolder(module: string): string {
  return join(dirname(fileURLToPath(import.meta.resolve(module))), "..");
}

async function compile(
  output: string,
  target: string | undefined,
  options: { readonly isPermissive: boolean },
): Promise<void> {
  const child = new Deno.Command(Deno.execPath(), {
    args: compileArguments(output, target, options),
    cwd: repository,
  }).spawn();
  const { code } = await child.status;
  if (code !== 0) Deno.exit(code);
}

if (import.meta.main) {
  const isPermissive = Deno.args.includes("--permissive");
  const named = Deno.args.filter((word) => word !== "--permissive");
  const targets = named.includes("all") ? TARGETS : named;
  const unknown = targets.find((target) => !TARGETS.some((known) => known === target));
  if (unknown !== undefined) {
    // deno-lint-ignore no-console -- a command of its own
    console.error(`There is no target "${unknown}": want ${TARGETS.join(", ")}, or all.`);
    Deno.exit(2);
  }
  if (targets.length === 0) await compile("dist/hearth", undefined, { isPermissive });
  for (const target of targets) await compile(`dist/hearth-${target}`, target, { isPermissive });
}
