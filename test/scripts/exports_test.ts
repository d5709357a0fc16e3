import assert from "node:assert/strict";
import { readSources } from "../fixtures/files/sources.ts";

const EXPORT = /^export (?:abstract |async )?(?:const|function\*?|class|interface|type) (\w+)/gm;

/** Whether an example in a doc comment calls the function; examples run as separate files. */
function isInExample(text: string, name: string): boolean {
  const examples = text.match(/^ \* ```ts$[^]*?^ \* ```$/gm) ?? [];
  return examples.some((example) => new RegExp(`\\b${name}\\(`).test(example));
}

Deno.test("every export is used in another file, or in an example", async () => {
  const files = await readSources(["src", "kernels", "scripts", "test"]);
  const numFiles = new Map<string, number>();
  for (const text of files.values()) {
    for (const word of new Set(text.match(/\w+/g))) {
      numFiles.set(word, (numFiles.get(word) ?? 0) + 1);
    }
  }
  const unused = [...files].flatMap(([path, text]) =>
    // AssemblyScript is a separate program: the host calls its exports.
    !/^(?:src|kernels(?!\/wasm))\//.test(path)
      ? []
      : Array.from(text.matchAll(EXPORT), ([, name]) => name!)
        .filter((name) => numFiles.get(name) === 1 && !isInExample(text, name))
        .map((name) => `${path}: ${name}`)
  );
  assert.deepEqual(unused, []);
});
