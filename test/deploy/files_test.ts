import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { join } from "node:path";
import { validate } from "dockerfile-utils";
import { Deployment } from "kubernetes-models/apps/v1/Deployment";
import { HorizontalPodAutoscaler } from "kubernetes-models/autoscaling/v2/HorizontalPodAutoscaler";
import { Service } from "kubernetes-models/v1/Service";
import { parse, parseAllDocuments } from "yaml";
import { SERVE_FLAGS } from "../../src/cli/flags.ts";
import { TestApp } from "../fixtures/server.ts";

const FOLDER = fileURLToPath(new URL("../../deploy/", import.meta.url));
const FILES = ["nginx.conf", "hearth.service", "Dockerfile", "kubernetes.yaml"];

function read(name: string): string {
  return Deno.readTextFileSync(FOLDER + name);
}

Deno.test("deploy/: every variable is one of a flag", () => {
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

Deno.test("deploy/kubernetes.yaml has a Deployment, a Service that finds it, and its autoscaler", () => {
  const documents = parseAllDocuments(read("kubernetes.yaml"));
  assert.deepEqual(documents.flatMap(({ errors, warnings }) => [...errors, ...warnings]), []);
  const [deployment, service, scaler] = documents.map((document) => document.toJS());
  assert.deepEqual(
    [deployment.kind, service.kind, scaler.kind],
    ["Deployment", "Service", "HorizontalPodAutoscaler"],
  );
  const { template, selector } = deployment.spec;
  assert.deepEqual(template.metadata.labels, selector.matchLabels);
  assert.deepEqual(service.spec.selector, selector.matchLabels);
  const [container] = template.spec.containers;
  assert.equal(container.readinessProbe.httpGet.path, "/health");
  const startSeconds = container.startupProbe.periodSeconds *
    container.startupProbe.failureThreshold;
  assert.ok(startSeconds >= 1_800, "a first start downloads the model");
  const drain = Number(
    container.env.find(({ name }: { name: string }) => name === "HEARTH_DRAIN_SECONDS").value,
  );
  assert.ok(template.spec.terminationGracePeriodSeconds > drain + 5);
  assert.equal(scaler.spec.scaleTargetRef.name, deployment.metadata.name);
});

Deno.test("deploy/kubernetes.yaml is what Kubernetes' own schemas ask for", () => {
  const [deployment, service, scaler] = parseAllDocuments(read("kubernetes.yaml"))
    .map((document) => document.toJS());
  new Deployment(deployment).validate();
  new Service(service).validate();
  new HorizontalPodAutoscaler(scaler).validate();
  deployment.spec.template.spec.containers[0].ports[0].containerPort = "http";
  assert.throws(() => new Deployment(deployment).validate(), /containerPort/);
});

Deno.test("deploy/Dockerfile has no fault that a linter knows", () => {
  assert.deepEqual(validate(read("Dockerfile")), []);
  assert.notDeepEqual(validate(read("Dockerfile").replace("ENTRYPOINT", "ENTRY")), []);
});

/** Skipped where there is no systemd. */
const hasSystemd = ["/usr/bin/systemd-analyze", "/bin/systemd-analyze"].some((path) => {
  try {
    return Deno.statSync(path).isFile;
  } catch {
    return false;
  }
});

/** What `systemd-analyze verify` says of a unit. */
async function verifyUnit(unit: string): Promise<string> {
  const path = join(Deno.makeTempDirSync(), "hearth.service");
  // Where Deno is installed is the machine's affair.
  Deno.writeTextFileSync(path, unit.replace("/usr/local/bin/deno", Deno.execPath()));
  const { success, stderr } = await new Deno.Command("systemd-analyze", {
    args: ["verify", path],
  }).output();
  return `${success ? "sound" : "unsound"}${new TextDecoder().decode(stderr)}`;
}

Deno.test(
  "deploy/hearth.service is a unit that systemd takes",
  { ignore: !hasSystemd },
  async () => {
    const unit = read("hearth.service");
    assert.equal(await verifyUnit(unit), "sound");
    assert.match(await verifyUnit(unit.replace("LimitNOFILE", "LimitFiles")), /LimitFiles/);
  },
);

/** Every metric that a server with a model offers. */
async function metricNames(): Promise<Set<string>> {
  await using app = await new TestApp().ready();
  await app.request("/health");
  const text = await (await app.request("/metrics")).text();
  return new Set([...text.matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name!));
}

function metricsOf(expressions: readonly string[]): string[] {
  return expressions.flatMap((expression) => expression.match(/hearth_\w+/g) ?? [])
    .map((name) => name.replace(/_(bucket|sum|count)$/, ""));
}

Deno.test("deploy/: dashboard and alerts ask for metrics that there are", async () => {
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
  for (const name of metricsOf(expressions)) assert.ok(names.has(name), name);
});

Deno.test("metrics are named as Prometheus wants it: counters end in _total, and nothing else does", async () => {
  await using app = await new TestApp().ready();
  const text = await (await app.request("/metrics")).text();
  for (const [, name, type] of text.matchAll(/^# TYPE (\S+) (\S+)/gm)) {
    assert.match(name!, /^(hearth|process)_[a-z0-9_]+$/);
    assert.equal(name!.endsWith("_total"), type === "counter", name);
  }
});
