/** API keys can be replaced while the server runs. */
import assert from "node:assert/strict";
import { HearthProcess } from "../fixtures/servers/hearth_process.ts";

const ignore = Deno.build.os === "windows";

Deno.test({
  name:
    "serve reads its key file again at SIGHUP, and keeps the previous keys if the file is invalid",
  ignore,
  async fn() {
    const file = Deno.makeTempFileSync();
    Deno.writeTextFileSync(file, "ann:old\n");
    await using hearth = new HearthProcess(["-p", "0", "--device", "cpu", "--api-key-file", file]);
    const url = await hearth.ready();
    const status = async (key: string) => {
      const answer = await fetch(`${url}/docs`, { headers: { authorization: `Bearer ${key}` } });
      await answer.body?.cancel();
      return answer.status;
    };
    assert.deepEqual([await status("old"), await status("new")], [200, 401]);
    Deno.writeTextFileSync(file, "ann:new\nben:other\n");
    hearth.kill("SIGHUP");
    await hearth.logged(/the API keys were read again/);
    assert.deepEqual([await status("old"), await status("new")], [401, 200]);
    Deno.writeTextFileSync(file, "nothing\n");
    hearth.kill("SIGHUP");
    await hearth.logged(/cannot be read again/);
    assert.deepEqual([await status("other"), await status("new")], [200, 200]);
    Deno.removeSync(file);
    hearth.kill("SIGTERM");
    assert.equal((await hearth.ending).code, 0);
  },
});
