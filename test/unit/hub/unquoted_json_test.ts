import assert from "node:assert/strict";
import { join } from "node:path";
import { readAnyJson } from "../../../src/hub/model_folder.ts";

const SECRET = "s3cret";

Deno.test("readAnyJson() says what is wrong with a file, and quotes nothing of it", async () => {
  const folder = Deno.makeTempDirSync();
  const texts = [
    SECRET,
    `{"${SECRET}": ${SECRET}}`,
    `{"a": "${SECRET}\n"}`,
    `{"a": 1} ${SECRET}`,
    `["${SECRET}" `,
    `root:x:0:0:${SECRET}`,
    "",
  ];
  for (const text of texts) {
    Deno.writeTextFileSync(join(folder, "config.json"), text);
    await assert.rejects(readAnyJson(folder, "config.json"), ({ message }: Error) => {
      assert.match(message, /config\.json cannot be read: it is not valid JSON/);
      assert.doesNotMatch(message, /s3|root/);
      return true;
    }, text);
  }
  Deno.removeSync(folder, { recursive: true });
});
