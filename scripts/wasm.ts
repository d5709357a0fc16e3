/**
 * `deno task wasm`: builds what is written in AssemblyScript, each folder to one module, which is kept as text beside it.
 *
 * @module
 */
import asc from "assemblyscript/asc";
import { fileURLToPath } from "node:url";

/** A folder of sources, its features of WebAssembly, and the file that its module is kept in. */
interface WasmModule {
  readonly sources: string;
  readonly features: string;
  readonly binary: string;
  /** Whether several threads share its memory. */
  readonly isShared?: boolean;
}

/** By name. */
export const WASM_MODULES = {
  attention: {
    sources: "kernels/wasm/",
    features: "simd,relaxed-simd",
    binary: "kernels/attention_simd.wasm.base64",
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
  // That vectors cannot cross to JavaScript: they cross between our own files only.
  ["--disableWarning", "112"],
];

/** The memory's bounds have to be said then: all that it may have, and its least. */
const SHARED_FLAGS = ["--sharedMemory", "--initialMemory", "1", "--maximumMemory", "65536"];

function pathOf(path: string): string {
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
  const files = ["index.ts", "--baseDir", pathOf(sources), "--outFile", "module.wasm"];
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
    Deno.writeTextFileSync(pathOf(module.binary), binary.toBase64());
  }
}
