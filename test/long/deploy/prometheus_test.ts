/** Prometheus's own programs check the files for Prometheus in `deploy/`, if they are installed. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parse, stringify } from "yaml";
import { freePort } from "../../fixtures/servers/nginx.ts";
import { TestServer } from "../../fixtures/servers/server.ts";

const FOLDER = fileURLToPath(new URL("../../../deploy/", import.meta.url));
const KEY = "key-of-prometheus";

const isThere = async (program: string) => {
  const look = new Deno.Command("which", { args: [program], stdout: "null", stderr: "null" });
  return await look.output().then(({ success }) => success, () => false);
};
const HAS_PROMTOOL = await isThere("promtool");
const HAS_PROMETHEUS = await isThere("prometheus");
const unless = (has: boolean, program: string) => has ? "" : ` (skipped: no ${program})`;

async function promtool(args: string[], cwd: string): Promise<void> {
  const { success, stdout, stderr } = await new Deno.Command("promtool", { args, cwd }).output();
  const said = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes)).join("");
  assert.ok(success, said);
}

/** Values of a series per minute, in promtool's notation, and the alerts after them. */
interface Scenario {
  readonly minutes: number;
  readonly series: Readonly<Record<string, string>>;
  readonly firing: readonly string[];
}

const READY = 'hearth_phase{instance="a",phase="ready"}';
const POSTS = 'hearth_http_requests_total{instance="a",method="POST",status="200"}';
const IN_FLIGHT = 'hearth_requests_in_flight{instance="a"}';
const ROOM = 'hearth_queue_room{instance="a"}';

const SCENARIOS: Readonly<Record<string, Scenario>> = {
  "an idle server": {
    minutes: 30,
    series: { [READY]: "1x30", [IN_FLIGHT]: "0x30", [POSTS]: "7x30", [ROOM]: "512x30" },
    firing: [],
  },
  "a busy server": {
    minutes: 30,
    series: { [READY]: "1x30", [IN_FLIGHT]: "9x30", [POSTS]: "0+60x30", [ROOM]: "400x30" },
    firing: [],
  },
  "requests that never end": {
    minutes: 30,
    series: { [READY]: "1x30", [IN_FLIGHT]: "3x30", [POSTS]: "7x30", [ROOM]: "512x30" },
    firing: ["HearthAnswersNothing"],
  },
  "requests that never end, of a server that was never asked before": {
    minutes: 30,
    series: { [READY]: "1x30", [IN_FLIGHT]: "1x30", [ROOM]: "512x30" },
    firing: ["HearthAnswersNothing"],
  },
  "a model that is silent while health says ready": {
    minutes: 5,
    series: { [READY]: "1x5", 'hearth_worker_silent_seconds{instance="a"}': "0 0 0 16 20 25" },
    firing: ["HearthWorkerSilent"],
  },
  "a model that was replaced": {
    minutes: 5,
    series: { [READY]: "1x5", 'hearth_worker_hangs_total{instance="a"}': "0 0 0 1 1 1" },
    firing: ["HearthWorkerHung"],
  },
  "a model that was never loaded": {
    minutes: 30,
    series: { [READY]: "0x30" },
    firing: ["HearthNotReady"],
  },
};

Deno.test({
  name: `deploy/prometheus_alerts.yaml: each alert fires when it should, and is silent otherwise${
    unless(HAS_PROMTOOL, "promtool")
  }`,
  ignore: !HAS_PROMTOOL,
  fn: async () => {
    await promtool(["check", "rules", "prometheus_alerts.yaml"], FOLDER);
    const { groups: [{ rules }] } = parse(
      Deno.readTextFileSync(join(FOLDER, "prometheus_alerts.yaml")),
    );
    const names: string[] = rules.map(({ alert }: { alert: string }) => alert);
    const getLabels = (name: string) =>
      rules.find(({ alert }: { alert: string }) => alert === name).labels;
    const tests = Object.entries(SCENARIOS).map(([name, { minutes, series, firing }]) => ({
      name,
      interval: "1m",
      input_series: Object.entries(series).map(([series, values]) => ({ series, values })),
      alert_rule_test: names.map((alertname) => ({
        alertname,
        eval_time: `${minutes}m`,
        exp_alerts: firing.includes(alertname)
          ? [{ exp_labels: { ...getLabels(alertname), ...labelsIn(alertname) } }]
          : [],
      })),
    }));
    const folder = await Deno.makeTempDir();
    try {
      // The wording of alerts is not tested.
      const silent = rules.map(({ annotations: _, ...rule }: Record<string, unknown>) => rule);
      const file = stringify({ groups: [{ name: "hearth", rules: silent }] });
      await Deno.writeTextFile(join(folder, "rules.yaml"), file);
      const suite = { rule_files: ["rules.yaml"], evaluation_interval: "1m", tests };
      await Deno.writeTextFile(join(folder, "tests.yaml"), stringify(suite));
      await promtool(["test", "rules", "tests.yaml"], folder);
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
});

/** Labels that an alert copies from its series. */
function labelsIn(alert: string): Record<string, string> {
  return { instance: "a", ...(alert === "HearthNotReady" && { phase: "ready" }) };
}

Deno.test({
  name: `deploy/prometheus.yaml: Prometheus scrapes a server with a key, and sees when it changes${
    unless(HAS_PROMETHEUS, "prometheus")
  }`,
  ignore: !HAS_PROMETHEUS,
  fn: async () => {
    const apiKeys = [{ label: "prometheus", key: KEY }];
    await using server = await TestServer.start({ settings: { apiKeys } });
    const config = parse(Deno.readTextFileSync(join(FOLDER, "prometheus.yaml")));
    const [scrape] = config.scrape_configs;
    scrape.static_configs[0].targets = [new URL(server.base).host];
    config.global.scrape_interval = "1s";
    const folder = await Deno.makeTempDir();
    const at = `127.0.0.1:${freePort()}`;
    const keyFile = join(folder, scrape.authorization.credentials_file);
    await Deno.writeTextFile(keyFile, "wrong");
    await Deno.copyFile(
      join(FOLDER, "prometheus_alerts.yaml"),
      join(folder, "prometheus_alerts.yaml"),
    );
    await Deno.writeTextFile(join(folder, "prometheus.yaml"), stringify(config));
    const prometheus = new Deno.Command("prometheus", {
      args: ["--config.file=prometheus.yaml", `--web.listen-address=${at}`],
      ...{ cwd: folder, stdout: "null", stderr: "null" },
    }).spawn();
    const until = async (health: string) => {
      for (let tries = 0; tries < 150; tries++) {
        const seen = await fetch(`http://${at}/api/v1/targets`).then((response) => response.json())
          .catch(() => undefined);
        const [target] = seen?.data?.activeTargets ?? [];
        if (target?.health === health) return target.lastError as string;
        await new Promise((resolve) => setTimeout(resolve, 200));
      }
      throw new Error(`Prometheus does not see the server as ${health}.`);
    };
    try {
      assert.match(await until("down"), /401/);
      await Deno.writeTextFile(keyFile, KEY);
      assert.equal(await until("up"), "");
    } finally {
      prometheus.kill("SIGKILL");
      await prometheus.status;
      await Deno.remove(folder, { recursive: true });
    }
  },
});
