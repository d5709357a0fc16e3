/** The programs collected for other compilers cover every shader, and avoid what Direct3D's compiler refuses. */
import assert from "node:assert/strict";
import { collectPrograms } from "./every_program.ts";

const KERNELS = new URL("../../kernels/", import.meta.url);

/** Lists the shaders in a folder and its subfolders. */
async function listShaders(folder: URL): Promise<URL[]> {
  const urls: URL[] = [];
  for await (const { name, isDirectory } of Deno.readDir(folder)) {
    if (isDirectory) urls.push(...await listShaders(new URL(`${name}/`, folder)));
    else if (name.endsWith(".wgsl")) urls.push(new URL(name, folder));
  }
  return urls;
}

/**
 * Lists a template's function signatures without parameters of the template. Programs contain them unchanged, though
 * not all in the same program.
 */
function getFunctions(text: string): string[] {
  return text.split("\n").filter((line) => line.startsWith("fn ") && !line.includes("$"));
}

Deno.test("collectPrograms() covers each shader of the kernels", async () => {
  const programs = collectPrograms();
  const missing: string[] = [];
  for (const url of await listShaders(KERNELS)) {
    const text = await Deno.readTextFile(url);
    const parts = text.includes("//# ") ? getFunctions(text) : [text];
    const isThere = parts.every((part) => programs.some(({ source }) => source.includes(part)));
    if (!isThere) missing.push(url.pathname);
  }
  assert.deepEqual(missing, []);
});

Deno.test("no program writes to an element of a vector by a variable index", () => {
  // Direct3D's compiler refuses it (X3500, X3511): gfx-rs/wgpu#8334.
  const faults = new Set<string>();
  for (const { source } of collectPrograms()) {
    const vectors = source.matchAll(
      /\b(\w+)(?:: vec[234]<\w+>[,;)]|(?:: \w+)? = vec[234]<\w+>\()/g,
    );
    const names = new Set([...vectors].map(([, name]) => name));
    for (const [line, name = ""] of source.matchAll(/\b(\w+)\[[a-z]\w*\] [-+*]?= .*/g)) {
      if (names.has(name)) faults.add(line);
    }
  }
  assert.deepEqual([...faults], []);
});
