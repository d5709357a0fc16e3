/**
 * Builds `attention_simd.wasm.base64` from the AssemblyScript in `wasm/`: `deno task wasm`.
 *
 * @module
 */
import asc from "assemblyscript/asc";
import { fileURLToPath } from "node:url";

const FLAGS = [
  ["--optimizeLevel", "3"],
  ["--runtime", "stub"],
  ["--enable", "simd,relaxed-simd"],
  ["--importMemory", "--noExportMemory", "--noAssert"],
  // That vectors cannot cross to JavaScript: they cross between our own files only.
  ["--disableWarning", "112"],
];

/**
 * Compiles the kernels; the same sources give the same bytes.
 *
 * @throws {Error} with the compiler's messages.
 */
export async function compileKernels(): Promise<Uint8Array> {
  const baseDir = fileURLToPath(new URL("./wasm/", import.meta.url));
  let binary: Uint8Array | undefined;
  const { error, stderr } = await asc.main(
    ["index.ts", "--baseDir", baseDir, "--outFile", "attention_simd.wasm", ...FLAGS.flat()],
    { writeFile: (_name, contents) => void (binary = contents as Uint8Array) },
  );
  if (error) throw new Error(`The kernels do not compile:\n${stderr}`, { cause: error });
  return binary!;
}

if (import.meta.main) {
  const file = new URL("./attention_simd.wasm.base64", import.meta.url);
  Deno.writeTextFileSync(file, (await compileKernels()).toBase64());
}
