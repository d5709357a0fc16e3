/**
 * `deno task wasm`: builds the AssemblyScript sources, each folder to one module, stored as base64 text.
 *
 * @module
 */
import asc from "assemblyscript/asc";
import { fileURLToPath } from "node:url";

/** A folder of sources, its WebAssembly features, and the output file. */
interface WasmModule {
  readonly sources: string;
  readonly features: string;
  readonly binary: string;
  /** Whether several threads share its memory. */
  readonly isShared?: boolean;
}

/** Modules by name. */
export const WASM_MODULES = {
  attention: {
    sources: "kernels/wasm/",
    features: "simd,relaxed-simd",
    binary: "kernels/cpu/attention_simd.wasm.base64",
    isShared: true,
  },
  images: {
    sources: "src/media/wasm/",
    features: "simd",
    binary: "src/media/pixel_simd.wasm.base64",
  },
} as const satisfies Readonly<Record<string, WasmModule>>;

const FLAGS = [
  ["--optimizeLevel", "3"],
  ["--runtime", "stub"],
  ["--importMemory", "--noExportMemory", "--noAssert"],
  // Turns off the warning that vectors cannot be passed to JavaScript: here only AssemblyScript files exchange them.
  ["--disableWarning", "112"],
];

/** Flags for shared memory, which must have a minimum and a maximum size. */
const SHARED_FLAGS = ["--sharedMemory", "--initialMemory", "1", "--maximumMemory", "65536"];

function resolvePath(path: string): string {
  return fileURLToPath(new URL(`../${path}`, import.meta.url));
}

/**
 * Compiles a module; the same sources give the same bytes.
 *
 * @throws {Error} with the compiler's messages.
 */
export async function compileWasm(module: WasmModule): Promise<Uint8Array> {
  const { sources, features, isShared = false } = module;
  let binary: Uint8Array | undefined;
  const files = ["index.ts", "--baseDir", resolvePath(sources), "--outFile", "module.wasm"];
  const { error, stderr } = await asc.main(
    [
      ...[...files, "--enable", isShared ? `${features},threads` : features],
      ...[...FLAGS.flat(), ...(isShared ? SHARED_FLAGS : [])],
    ],
    { writeFile: (_name, contents) => void (binary = contents as Uint8Array) },
  );
  if (error) throw new Error(`${sources} does not compile:\n${stderr}`, { cause: error });
  return binary!;
}

if (import.meta.main) {
  for (const module of Object.values(WASM_MODULES)) {
    const binary = await compileWasm(module);
    Deno.writeTextFileSync(resolvePath(module.binary), binary.toBase64());
  }
}
