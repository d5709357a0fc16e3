import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { join } from "node:path";
import { validate } from "dockerfile-utils";
import { parse } from "yaml";
import { SERVE_FLAGS } from "../../src/cli/flags.ts";
import { TestApp } from "../fixtures/servers/server.ts";

const FOLDER = fileURLToPath(new URL("../../deploy/", import.meta.url));
const FILES = ["nginx.conf", "hearth.service", "Dockerfile", "kubernetes.yaml", "kserve.yaml"];
/** The repository's root, the build context of the image. */
const ROOT = fileURLToPath(new URL("../../", import.meta.url));

function read(name: string): string {
  return Deno.readTextFileSync(FOLDER + name);
}

Deno.test("deploy/: every variable belongs to a flag", () => {
  const known = new Set(
    Object.keys(SERVE_FLAGS).map((name) =>
      `HEARTH_${name.replaceAll(/[A-Z]/g, "_$&").toUpperCase()}`
    ),
  );
  for (const file of FILES) {
    for (const [variable] of read(file).matchAll(/HEARTH_[A-Z_]+/g)) {
      assert.ok(known.has(variable), `${file}: ${variable}`);
    }
  }
});

Deno.test("deploy/Dockerfile passes a linter", () => {
  assert.deepEqual(validate(read("Dockerfile")), []);
  assert.notDeepEqual(validate(read("Dockerfile").replace("ENTRYPOINT", "ENTRY")), []);
});

/** Tests of the unit are skipped without systemd. */
const hasSystemd = ["/usr/bin/systemd-analyze", "/bin/systemd-analyze"].some((path) => {
  try {
    return Deno.statSync(path).isFile;
  } catch {
    return false;
  }
});

/** The output of `systemd-analyze verify` for a unit. */
async function verifyUnit(unit: string): Promise<string> {
  const path = join(Deno.makeTempDirSync(), "hearth.service");
  // Uses this machine's path of Deno.
  Deno.writeTextFileSync(path, unit.replace("/usr/local/bin/deno", Deno.execPath()));
  const { success, stderr } = await new Deno.Command("systemd-analyze", {
    args: ["verify", path],
  }).output();
  return `${success ? "sound" : "unsound"}${new TextDecoder().decode(stderr)}`;
}

Deno.test(
  "deploy/hearth.service is a valid systemd unit",
  { ignore: !hasSystemd },
  async () => {
    const unit = read("hearth.service");
    assert.equal(await verifyUnit(unit), "sound");
    assert.match(await verifyUnit(unit.replace("LimitNOFILE", "LimitFiles")), /LimitFiles/);
  },
);

Deno.test(
  "deploy/hearth.service gives the server few rights",
  { ignore: !hasSystemd },
  async () => {
    const path = join(Deno.makeTempDirSync(), "hearth.service");
    Deno.writeTextFileSync(path, read("hearth.service"));
    const { stdout } = await new Deno.Command("systemd-analyze", {
      args: ["security", "--offline=true", "--no-pager", path],
      env: { LC_ALL: "C" },
    }).output();
    const report = new TextDecoder().decode(stdout);
    const [, exposure] = report.match(/exposure level for .*: ([\d.]+)/)!;
    assert.ok(Number(exposure) < 3, `exposure ${exposure} of 10`);
    assert.doesNotMatch(report, /✗ (SystemCallFilter=~@|CapabilityBoundingSet=~CAP_)/);
  },
);

Deno.test(".dockerignore includes all that the program needs, and excludes the tests", async () => {
  const image = Deno.makeTempDirSync();
  const admitted = Deno.readTextFileSync(ROOT + ".dockerignore").split("\n")
    .flatMap((line) => line.startsWith("!") ? [line.slice(1)] : []);
  for (const name of admitted) {
    await Deno.mkdir(join(image, name, ".."), { recursive: true });
    const { success } = await new Deno.Command("cp", {
      args: ["-r", ROOT + name, join(image, name)],
    }).output();
    assert.ok(success, name);
  }
  assert.deepEqual([...Deno.readDirSync(join(image, "test"))].map(({ name }) => name), [
    "deno.json",
  ]);
  const { stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: [
      "run",
      "-A",
      "--no-check",
      "--frozen",
      "main.ts",
      "run",
      "hearth-demo-chat",
      "-i",
      "Hi",
      "--max-tokens",
      "4",
    ],
    cwd: image,
  }).output();
  assert.ok(stdout.length > 1, new TextDecoder().decode(stderr));
  Deno.removeSync(image, { recursive: true });
});

/** The names of all metrics of a server with a model. */
async function metricNames(): Promise<Set<string>> {
  await using app = await new TestApp().ready();
  await app.request("/health");
  const text = await (await app.request("/metrics")).text();
  return new Set([...text.matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name!));
}

function readMetrics(expressions: readonly string[]): string[] {
  return expressions.flatMap((expression) => expression.match(/hearth_\w+/g) ?? [])
    .map((name) => name.replace(/_(bucket|sum|count)$/, ""));
}

Deno.test("deploy/: dashboard and alerts only use metrics that exist", async () => {
  const names = await metricNames();
  const dashboard = JSON.parse(read("grafana.json"));
  const { groups } = parse(read("prometheus_alerts.yaml"));
  const expressions = [
    ...dashboard.panels.flatMap(({ targets }: { targets: { expr: string }[] }) =>
      targets.map(({ expr }) => expr)
    ),
    ...groups.flatMap(({ rules }: { rules: { expr: string }[] }) => rules.map(({ expr }) => expr)),
  ];
  assert.ok(expressions.length > 15);
  for (const name of readMetrics(expressions)) assert.ok(names.has(name), name);
});

Deno.test("metrics have names that Prometheus recommends: counters end in _total, and nothing else does", async () => {
  await using app = await new TestApp().ready();
  const text = await (await app.request("/metrics")).text();
  for (const [, name, type] of text.matchAll(/^# TYPE (\S+) (\S+)/gm)) {
    assert.match(name!, /^(hearth|process)_[a-z0-9_]+$/);
    assert.equal(name!.endsWith("_total"), type === "counter", name);
  }
});
