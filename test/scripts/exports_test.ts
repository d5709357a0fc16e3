import assert from "node:assert/strict";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const EXPORT = /^export (?:abstract |async )?(?:const|function\*?|class|interface|type) (\w+)/gm;

/** The code of all files, by path. */
async function readFiles(): Promise<Map<string, string>> {
  const files = new Map([["main.ts", await Deno.readTextFile(join(ROOT, "main.ts"))]]);
  const walk = async (folder: string) => {
    for await (const { name, isDirectory } of Deno.readDir(join(ROOT, folder))) {
      const path = `${folder}/${name}`;
      if (isDirectory) await walk(path);
      else if (/\.tsx?$/.test(name)) files.set(path, await Deno.readTextFile(join(ROOT, path)));
    }
  };
  for (const folder of ["src", "kernels", "scripts", "test"]) await walk(folder);
  return files;
}

Deno.test("what is exported is used in another file", async () => {
  const files = await readFiles();
  const filesOf = new Map<string, number>();
  for (const text of files.values()) {
    for (const word of new Set(text.match(/\w+/g))) {
      filesOf.set(word, (filesOf.get(word) ?? 0) + 1);
    }
  }
  const unused = [...files].flatMap(([path, text]) =>
    // AssemblyScript is another program: its exports are what the host calls.
    !/^(?:src|kernels(?!\/wasm))\//.test(path)
      ? []
      : Array.from(text.matchAll(EXPORT), ([, name]) => name!)
        .filter((name) => filesOf.get(name) === 1)
        .map((name) => `${path}: ${name}`)
  );
  assert.deepEqual(unused, []);
});
