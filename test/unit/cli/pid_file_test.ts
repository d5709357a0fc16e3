import assert from "node:assert/strict";
import { join } from "node:path";
import { pidFilePath, removePidFile, writePidFile } from "../../../src/cli/pid_file.ts";

const RECORD = {
  pid: 4711,
  model: "demo",
  host: "127.0.0.1",
  port: 10100,
  startedSeconds: 1_700_000_000,
};

async function withFile(use: (path: string) => void): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    use(join(folder, "hearth", "10100.pid"));
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test("pidFilePath() follows the platform's own place", () => {
  const home = { HOME: "/home/ada" };
  assert.equal(
    pidFilePath(10100, { ...home, XDG_RUNTIME_DIR: "/run/user/1000" }, "linux"),
    join("/run/user/1000", "hearth", "10100.pid"),
  );
  assert.equal(pidFilePath(8, home, "darwin"), join("/home/ada", ".hearth", "run", "8.pid"));
  assert.equal(
    pidFilePath(8, { ...home, XDG_RUNTIME_DIR: "" }, "linux"),
    join("/home/ada", ".hearth", "run", "8.pid"),
  );
  assert.equal(
    pidFilePath(8, { LOCALAPPDATA: "/users/ada/local" }, "windows"),
    join("/users/ada/local", "hearth", "run", "8.pid"),
  );
});

Deno.test("writePidFile() puts the process id alone on the first line, in place of a file left behind", async () => {
  await withFile((path) => {
    writePidFile(path, { ...RECORD, pid: 1 });
    writePidFile(path, RECORD);
    const [pid, served, end] = Deno.readTextFileSync(path).split("\n");
    assert.equal(pid, "4711");
    assert.deepEqual(JSON.parse(served ?? ""), {
      model: "demo",
      host: "127.0.0.1",
      port: 10100,
      startedSeconds: 1_700_000_000,
    });
    assert.equal(end, "");
    assert.deepEqual([...Deno.readDirSync(join(path, ".."))].map(({ name }) => name), [
      "10100.pid",
    ]);
  });
});

Deno.test("removePidFile() removes its own file and leaves another's, or none, alone", async () => {
  await withFile((path) => {
    writePidFile(path, RECORD);
    removePidFile(path, 4712);
    assert.ok(Deno.statSync(path).isFile);
    removePidFile(path, 4711);
    assert.throws(() => Deno.statSync(path), Deno.errors.NotFound);
    removePidFile(path, 4711);
  });
});
