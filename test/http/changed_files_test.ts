/** Files of the model that change while it is served. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { fragileSpawner } from "../fixtures/threads/fragile.ts";
import { ModelFolder } from "../fixtures/models/model_folder.ts";
import { chatBody, MODEL, TestServer } from "../fixtures/servers/server.ts";

const CHAT = "/v1/chat/completions";
const CHANGED = /^The model's files have changed since it was loaded \(config\.json\)/;

async function openFolder(): Promise<ModelFolder> {
  const folder = await ModelFolder.create();
  await folder.writeConfig(JSON.stringify(ModelFolder.readConfig(MODEL)));
  return folder;
}

/** Changes of a file that do not affect its meaning. */
const CHANGES: Readonly<Record<string, (path: string) => void>> = {
  "is rewritten": (path) => Deno.writeTextFileSync(path, `${Deno.readTextFileSync(path)}\n`),
  "gets another modification time": (path) =>
    Deno.utimeSync(path, new Date(), new Date(Date.now() + 5_000)),
  "is replaced by rename": (path) => {
    Deno.writeTextFileSync(`${path}.new`, `${Deno.readTextFileSync(path)}\n`);
    Deno.renameSync(`${path}.new`, path);
  },
};

for (const [name, change] of Object.entries(CHANGES)) {
  Deno.test(`a file of the served model that ${name}: health says 503 and why, to everybody`, async () => {
    await using folder = await openFolder();
    await using server = await TestServer.start({ folder: folder.path, filesCheckMs: 50 });
    const { app, base } = server;
    // A README is not read.
    Deno.writeTextFileSync(join(folder.path, "README.md"), "new");
    await new Promise((resolve) => setTimeout(resolve, 200));
    assert.equal((await fetch(`${base}/health`)).status, 200);

    change(join(folder.path, "config.json"));
    while (app.session.state.phase === "ready") {
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    const caller = {
      callerAddress: "192.0.2.1",
      httpVersion: "1.1",
      completed: Promise.resolve(),
    } as const;
    for (const info of [undefined, caller]) {
      const health = await app.request("/health", {}, info);
      assert.equal(health.status, 503);
      assert.match((await health.json()).error, CHANGED);
    }
    assert.equal((await app.post(CHAT, chatBody())).status, 503);
  });
}

Deno.test("a lost worker is not replaced if the model's files have changed", async () => {
  await using folder = await openFolder();
  const { spawnWorker, workers } = fragileSpawner("lose-on=request");
  await using server = await TestServer.start({ folder: folder.path, spawnWorker });
  const { app, base } = server;
  Deno.writeTextFileSync(join(folder.path, "config.json"), "{}");
  assert.equal((await app.post(CHAT, chatBody())).status, 503);
  await assert.rejects(app.session.ready(), { message: CHANGED });
  assert.match((await (await fetch(`${base}/health`)).json()).error, CHANGED);
  assert.equal(workers.length, 1);
});
