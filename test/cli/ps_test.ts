import assert from "node:assert/strict";
import { join } from "node:path";
import { getPidFilePath, PidFile } from "../../src/cli/running.ts";
import { computeStopTimeout } from "../../src/cli/servers.ts";
import { HearthProcess, runHearth } from "../fixtures/servers/hearth_process.ts";
import { hasTerminals, runInTerminal } from "../fixtures/servers/terminal.ts";

const CPU = ["-p", "0", "--device", "cpu"];

/** Runs `use` with its own folder for process-id files. */
async function withRunFolder(use: (env: Record<string, string>) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "hearth-run-" });
  try {
    await use({ XDG_RUNTIME_DIR: folder });
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test("ps without servers says so, and removes the files of killed servers", async () => {
  await withRunFolder(async (env) => {
    assert.equal((await runHearth(["ps"], { env })).stdout, "No server is running.\n");
    await using killed = new HearthProcess(CPU, { env });
    await killed.url();
    killed.kill("SIGKILL");
    await killed.ending;
    const folder = join(env["XDG_RUNTIME_DIR"]!, "hearth");
    await Deno.writeTextFile(join(folder, "10100.pid"), "");
    assert.equal([...Deno.readDirSync(folder)].length, 2);
    assert.equal((await runHearth(["ps", "--json"], { env })).stdout, "[]\n");
    assert.deepEqual([...Deno.readDirSync(folder)], []);
  });
});

Deno.test("ps finds no servers if a file has the path of the folder for process-id files", async () => {
  await withRunFolder(async (env) => {
    await Deno.writeTextFile(join(env["XDG_RUNTIME_DIR"]!, "hearth"), "");
    const { code, stdout, stderr } = await runHearth(["ps"], { env });
    assert.deepEqual({ code, stdout, stderr }, {
      code: 0,
      stdout: "No server is running.\n",
      stderr: "",
    });
  });
});

Deno.test("ps shows each server with process, model, address, uptime and state; stop ends one", async () => {
  await withRunFolder(async (env) => {
    await using first = new HearthProcess([...CPU, "--drain-seconds", "3"], { env });
    const url = await first.ready();
    const { code, stdout } = await runHearth(["ps", "--json"], { env });
    assert.equal(code, 0);
    const [server] = JSON.parse(stdout);
    assert.equal(server.pid, first.pid);
    assert.equal(server.model, "hearth-demo-chat");
    assert.equal(server.url, url);
    assert.equal(server.state, "ready");
    // The server has three seconds for its requests, and ten more to free its device.
    assert.equal(computeStopTimeout(server), 13);
    assert.ok(server.uptimeSeconds >= 0 && server.uptimeSeconds < 600);
    const table = new RegExp(
      `^PID +MODEL +ADDRESS +UP +STATE\n${first.pid} +hearth-demo-chat +${url} +\\d+ s +ready\n$`,
    );
    assert.match((await runHearth(["ps"], { env })).stdout, table);
    if (hasTerminals) assert.match((await runInTerminal(["ps"], { env })).screen, table);

    await using second = new HearthProcess([...CPU, "--api-key", "secret"], { env });
    const port = new URL(await second.ready()).port;
    const both = await runHearth(["stop"], { env });
    assert.equal(both.code, 1);
    assert.match(
      both.stderr,
      /Several servers are running; name a port: \d+ \(hearth-demo-chat\), \d+ \(/,
    );
    const wrong = await runHearth(["stop", "1"], { env });
    assert.equal(wrong.code, 1);
    assert.match(wrong.stderr, /No server is running on port 1; there are \d+ /);
    const byPid = await runHearth(["stop", String(second.pid)], { env });
    assert.match(byPid.stderr, new RegExp(`${second.pid} is a process id; its port is ${port}\\.`));
    assert.equal((await runHearth(["stop", "http"], { env })).code, 2);

    const stopped = await runHearth(["stop", port], { env });
    assert.equal(stopped.stdout, `Stopped hearth-demo-chat at http://127.0.0.1:${port}.\n`);
    assert.equal((await second.ending).code, 0);
    assert.equal((await runHearth(["stop"], { env })).code, 0);
    assert.equal((await first.ending).code, 0);
    const none = await runHearth(["stop"], { env });
    assert.equal(none.code, 1);
    assert.equal(none.stderr, "hearth: No server is running.\n");
    const noneThere = await runHearth(["stop", "99999"], { env });
    assert.equal(noneThere.stderr, "hearth: No server is running on port 99999.\n");
  });
});

Deno.test("stop does not end another process that has the id of a killed server", async () => {
  await withRunFolder(async (env) => {
    const listener = Deno.listen({ port: 0 });
    const { port } = listener.addr as Deno.NetAddr;
    listener.close();
    const other = new Deno.Command(Deno.execPath(), {
      args: ["eval", "setTimeout(() => {}, 600_000)"],
    }).spawn();
    const record = { pid: other.pid, model: "demo", host: "127.0.0.1", port, startedAt: "" };
    PidFile.write(record, getPidFilePath(port, env));
    const { code, stderr } = await runHearth(["stop", String(port)], { env });
    assert.equal(code, 1);
    assert.match(stderr, /but nothing answers there/);
    assert.equal(await Promise.race([other.status, Promise.resolve("alive")]), "alive");
    other.kill("SIGKILL");
    await other.status;
  });
});

Deno.test("ps shows why a server's model could not be loaded", async () => {
  await withRunFolder(async (env) => {
    const folder = await Deno.makeTempDir();
    await Deno.writeTextFile(join(folder, "config.json"), "{");
    await using hearth = new HearthProcess([...CPU, "-m", folder], { env });
    await hearth.logged(/ERROR/);
    const { stdout } = await runHearth(["ps"], { env });
    assert.match(stdout, /The model is not initialized: .*config\.json cannot be read/);
    await Deno.remove(folder, { recursive: true });
  });
});

Deno.test("ps distinguishes servers on one port at two addresses", {
  // Only on Linux, all of 127.0.0.0/8 is this machine.
  ignore: Deno.build.os !== "linux",
}, async () => {
  await withRunFolder(async (env) => {
    await using first = new HearthProcess(CPU, { env });
    const { port } = new URL(await first.ready());
    await using second = new HearthProcess(["-p", port, "-a", "127.0.0.2", "--device", "cpu"], {
      env,
    });
    await second.ready();
    const folder = join(env["XDG_RUNTIME_DIR"]!, "hearth");
    const namesIn = () => [...Deno.readDirSync(folder)].map(({ name }) => name).sort();
    const owner = (name: string) => parseInt(Deno.readTextFileSync(join(folder, name)));
    assert.deepEqual(namesIn(), [`${port}.pid`, `${port}@127.0.0.2.pid`]);
    assert.deepEqual(namesIn().map(owner), [first.pid, second.pid]);
    const { stdout } = await runHearth(["ps", "--json"], { env });
    const servers: { pid: number; url: string }[] = JSON.parse(stdout);
    const urls = new Map(servers.map(({ pid, url }) => [pid, url]));
    assert.deepEqual([urls.get(first.pid), urls.get(second.pid), urls.size], [
      `http://127.0.0.1:${port}`,
      `http://127.0.0.2:${port}`,
      2,
    ]);
    second.kill("SIGTERM");
    assert.equal((await second.ending).code, 0);
    assert.deepEqual(namesIn(), [`${port}.pid`]);
  });
});
