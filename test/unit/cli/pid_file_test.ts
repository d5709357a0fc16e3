import assert from "node:assert/strict";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { explainListenError, getPidFilePath, PidFile } from "../../../src/cli/running.ts";
import { CapturedStderr } from "../../fixtures/servers/capture_stderr.ts";

const RECORD = {
  pid: 4711,
  model: "demo",
  host: "127.0.0.1",
  port: 10100,
  startedAt: "2026-01-02T03:04:05.678Z",
};

async function withFile(use: (path: string) => void): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    use(join(folder, "hearth", "10100.pid"));
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test("getPidFilePath() follows the platform's conventions", () => {
  const home = { HOME: "/home/ada" };
  assert.equal(
    getPidFilePath(10100, { ...home, XDG_RUNTIME_DIR: "/run/user/1000" }, "linux"),
    join("/run/user/1000", "hearth", "10100.pid"),
  );
  assert.equal(getPidFilePath(8, home, "darwin"), join("/home/ada", ".hearth", "run", "8.pid"));
  assert.equal(
    getPidFilePath(8, { ...home, XDG_RUNTIME_DIR: "" }, "linux"),
    join("/home/ada", ".hearth", "run", "8.pid"),
  );
  assert.equal(
    getPidFilePath(8, { LOCALAPPDATA: "/users/ada/local" }, "windows"),
    join("/users/ada/local", "hearth", "run", "8.pid"),
  );
});

Deno.test("getPidFilePath() asks the system for the home folder of a service started without HOME", () => {
  assert.equal(getPidFilePath(8, {}, "linux"), join(homedir(), ".hearth", "run", "8.pid"));
});

Deno.test("PidFile.write() logs one line if a file cannot be written, and continues without it", async () => {
  await withFile((path) => {
    Deno.writeTextFileSync(dirname(path), "a file where the folder should be");
    using stderr = new CapturedStderr("warn");
    PidFile.write(RECORD, path).remove();
    assert.equal(stderr.lines.length, 1);
    assert.match(
      stderr.lines[0]!,
      /WARN {2}the process-id file cannot be written: ps and stop will not find this server path=\S+ reason="/,
    );
  });
});

Deno.test("PidFile.write() writes only the process id on the first line, and replaces a stale file", async () => {
  await withFile((path) => {
    PidFile.write({ ...RECORD, pid: 1 }, path);
    PidFile.write(RECORD, path);
    const [pid, served, end] = Deno.readTextFileSync(path).split("\n");
    assert.equal(pid, "4711");
    assert.deepEqual(JSON.parse(served ?? ""), {
      model: "demo",
      host: "127.0.0.1",
      port: 10100,
      startedAt: "2026-01-02T03:04:05.678Z",
    });
    assert.equal(end, "");
    assert.deepEqual([...Deno.readDirSync(join(path, ".."))].map(({ name }) => name), [
      "10100.pid",
    ]);
  });
});

Deno.test("PidFile.remove() removes only its own file, and ignores a missing one", async () => {
  await withFile((path) => {
    const left = PidFile.write({ ...RECORD, pid: 4712 }, path);
    const own = PidFile.write(RECORD, path);
    left.remove();
    assert.ok(Deno.statSync(path).isFile);
    own.remove();
    assert.throws(() => Deno.statSync(path), Deno.errors.NotFound);
    own.remove();
  });
});

Deno.test("PidFile: servers on one port at two addresses have separate files", async () => {
  const before = Deno.env.get("XDG_RUNTIME_DIR");
  const folder = await Deno.makeTempDir();
  try {
    Deno.env.set("XDG_RUNTIME_DIR", folder);
    // Two existing processes.
    const first = PidFile.write({ ...RECORD, pid: Deno.ppid });
    const second = PidFile.write({ ...RECORD, host: "::1", pid: Deno.pid });
    const names = () =>
      [...Deno.readDirSync(join(folder, "hearth"))].map(({ name }) => name).sort();
    assert.deepEqual(names(), ["10100.pid", "10100@__1.pid"]);
    second.remove();
    assert.deepEqual(names(), ["10100.pid"]);
    first.remove();
    assert.deepEqual(names(), []);
  } finally {
    if (before === undefined) Deno.env.delete("XDG_RUNTIME_DIR");
    else Deno.env.set("XDG_RUNTIME_DIR", before);
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("explainListenError() distinguishes a privileged port from one that Windows reserves", async () => {
  const explain = (port: number) =>
    explainListenError(new Deno.errors.PermissionDenied(), { host: "127.0.0.1", port });
  assert.match(
    await explain(80),
    /^Listening on port 80 is not permitted to this user\..* above 1023/,
  );
  assert.match(
    await explain(10100),
    /^Listening on port 10100 is not permitted\..*excludedportrange/,
  );
  assert.doesNotMatch(await explain(10100), /1023/);
});
