import assert from "node:assert/strict";
import { readApiKeys } from "../../../src/cli/flag_values.ts";

function read(text: string, apiKey?: string) {
  const file = Deno.makeTempFileSync();
  try {
    Deno.writeTextFileSync(file, text);
    return readApiKeys({ apiKeyFile: file, apiKey });
  } finally {
    Deno.removeSync(file);
  }
}

Deno.test("readApiKeys() reads labels and keys from a file, after the key of the flag", () => {
  assert.deepEqual(read("# ours\nann: a:b\r\n\nben:2\n"), [
    { label: "ann", key: "a:b" },
    { label: "ben", key: "2" },
  ]);
  assert.deepEqual(readApiKeys({ apiKey: "x" }), [{ label: "default", key: "x" }]);
  assert.deepEqual(read("ann:1\n", "x"), [
    { label: "default", key: "x" },
    { label: "ann", key: "1" },
  ]);
  assert.deepEqual(readApiKeys({}), []);
});

Deno.test("readApiKeys() refuses lines without a label or key, keys that no client could send, and a file without keys", () => {
  const cases = ["ann\n", ":key", "ann:", "ann: zwei wörter", "ann:ключ", "", "# nothing"];
  for (const text of cases) assert.throws(() => read(text), { name: "StartupError" }, text);
  assert.throws(() => readApiKeys({ apiKey: "schlüssel" }), { message: /visible ASCII/ });
  assert.throws(() => readApiKeys({ apiKeyFile: "/nowhere/keys" }), (error: Error) => {
    assert.equal(error.name, "StartupError");
    assert.equal(error.message.split("/nowhere/keys").length, 2, error.message);
    return true;
  });
});
