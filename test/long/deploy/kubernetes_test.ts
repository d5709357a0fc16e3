/** deploy/kubernetes.yaml and kubernetes_monitoring.yaml, compared with the program itself. */
import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { Deployment } from "kubernetes-models/apps/v1/Deployment";
import { HorizontalPodAutoscaler } from "kubernetes-models/autoscaling/v2/HorizontalPodAutoscaler";
import { ConfigMap } from "kubernetes-models/v1/ConfigMap";
import { PersistentVolumeClaim } from "kubernetes-models/v1/PersistentVolumeClaim";
import { Service } from "kubernetes-models/v1/Service";
import { parse, parseAllDocuments } from "yaml";
import { COMMANDS } from "../../../src/cli/command_line.ts";
import type { FlagValues } from "../../../src/cli/command.ts";
import type { SERVE_FLAGS } from "../../../src/cli/flags.ts";
import { parseCall } from "../../../src/cli/parse.ts";
import { LOCAL_CALLER, TestApp } from "../../fixtures/servers/server.ts";

const FOLDER = fileURLToPath(new URL("../../../deploy/", import.meta.url));
const POD_IP = "10.1.2.3";
const NAMESPACE = "models";

// deno-lint-ignore no-explicit-any -- the documents are what the tests are about
type Document = any;

function readDocuments(name: string): Document[] {
  const documents = parseAllDocuments(Deno.readTextFileSync(FOLDER + name));
  assert.deepEqual(documents.flatMap(({ errors, warnings }) => [...errors, ...warnings]), []);
  return documents.map((document) => document.toJS());
}

const [deployment, service, scaler, claim] = readDocuments("kubernetes.yaml");
const [monitor, adapter] = readDocuments("kubernetes_monitoring.yaml");
const { template, selector } = deployment.spec;
const pod = template.spec;
const [container] = pod.containers;

/** The container's environment as a kubelet creates it, with the variables of the Service unless they are disabled. */
function environment({ links }: { readonly links: boolean }): Record<string, string> {
  const fields: Record<string, string> = {
    "status.podIP": POD_IP,
    "metadata.namespace": NAMESPACE,
  };
  const values: Record<string, string> = links
    ? {
      HEARTH_SERVICE_HOST: "10.96.0.7",
      HEARTH_SERVICE_PORT: "80",
      HEARTH_PORT: "tcp://10.96.0.7:80",
      HEARTH_PORT_80_TCP: "tcp://10.96.0.7:80",
    }
    : {};
  for (const { name, value, valueFrom } of container.env) {
    values[name] = value?.replaceAll(/\$\((\w+)\)/g, (_: string, other: string) => values[other]) ??
      fields[valueFrom.fieldRef.fieldPath];
  }
  return values;
}

function readFlags(variables: Record<string, string>): FlagValues<typeof SERVE_FLAGS> {
  const call = parseCall(COMMANDS[0], [], variables);
  assert.ok(typeof call === "object");
  return call.flags as FlagValues<typeof SERVE_FLAGS>;
}

Deno.test("deploy/kubernetes.yaml and kubernetes_monitoring.yaml match Kubernetes' own schemas", () => {
  new Deployment(deployment).validate();
  new Service(service).validate();
  new HorizontalPodAutoscaler(scaler).validate();
  new PersistentVolumeClaim(claim).validate();
  new ConfigMap(adapter).validate();
  const damaged = structuredClone(deployment);
  damaged.spec.template.spec.containers[0].ports[0].containerPort = "http";
  assert.throws(() => new Deployment(damaged).validate(), /containerPort/);
});

Deno.test("deploy/kubernetes.yaml: its resources refer to each other", () => {
  assert.deepEqual(template.metadata.labels, selector.matchLabels);
  assert.deepEqual(service.spec.selector, selector.matchLabels);
  assert.deepEqual(monitor.spec.selector.matchLabels, selector.matchLabels);
  assert.equal(scaler.spec.scaleTargetRef.name, deployment.metadata.name);
  const ports = container.ports.map(({ name }: Document) => name);
  const { startupProbe, readinessProbe, livenessProbe } = container;
  const [endpoint] = monitor.spec.podMetricsEndpoints;
  for (
    const port of [
      service.spec.ports[0].targetPort,
      startupProbe.httpGet.port,
      readinessProbe.httpGet.port,
      livenessProbe.tcpSocket.port,
      endpoint.port,
    ]
  ) assert.ok(ports.includes(port), port);
  const volumes = new Map<string, Document>(pod.volumes.map((each: Document) => [each.name, each]));
  for (const { name } of container.volumeMounts) assert.ok(volumes.has(name), name);
  assert.equal(volumes.get("models").persistentVolumeClaim.claimName, claim.metadata.name);
  assert.deepEqual(claim.spec.accessModes, ["ReadWriteMany"], "the pods share the models");
  assert.equal(volumes.get("keys").secret.secretName, endpoint.authorization.credentials.name);
});

Deno.test("deploy/kubernetes.yaml: there is time to download a model, and to drain", () => {
  const { startupProbe, env } = container;
  assert.ok(startupProbe.periodSeconds * startupProbe.failureThreshold >= 1_800);
  const drain = Number(env.find(({ name }: Document) => name === "HEARTH_DRAIN_SECONDS").value);
  const [, pause] = container.lifecycle.preStop.exec.command;
  assert.ok(pod.terminationGracePeriodSeconds > drain + Number(pause));
});

Deno.test("deploy/kubernetes.yaml: the program accepts its environment, also with service links", () => {
  assert.equal(pod.enableServiceLinks, false);
  for (const links of [false, true]) {
    const flags = readFlags(environment({ links }));
    assert.equal(flags.port, container.ports[0].containerPort);
    assert.equal(flags.address, "0.0.0.0");
    const file = flags.apiKeyFile!;
    assert.ok(container.volumeMounts.some(({ mountPath }: Document) => file.startsWith(mountPath)));
  }
  const home = environment({ links: false })["HF_HOME"];
  const [mount] = container.volumeMounts.filter(({ name }: Document) => name === "models");
  assert.equal(home, mount.mountPath, "models are downloaded into the shared volume");
});

Deno.test("deploy/kubernetes.yaml: clients, probes and Prometheus are served under the names they use", async () => {
  const { allowedHost: allowedHosts, address: host } = readFlags(environment({ links: true }));
  const apiKeys = [{ label: "prometheus", key: "key-of-prometheus" }];
  await using app = await new TestApp({ settings: { allowedHosts, host, apiKeys } }).ready();
  const ask = async (hostName: string, path: string, key?: string) => {
    const headers = { host: hostName, ...key ? { authorization: `Bearer ${key}` } : {} };
    const caller = { ...LOCAL_CALLER, callerAddress: "10.1.9.9" };
    return (await app.request(path, { headers }, caller)).status;
  };
  const { name } = service.metadata;
  for (
    const hostName of [
      name,
      `${name}.${NAMESPACE}`,
      `${name}.${NAMESPACE}.svc`,
      `${name}.${NAMESPACE}.svc.cluster.local`,
    ]
  ) assert.equal(await ask(hostName, "/v1/models", apiKeys[0]!.key), 200, hostName);
  const pod = `${POD_IP}:10100`;
  assert.equal(await ask(pod, container.readinessProbe.httpGet.path), 200);
  const [{ path, authorization }] = monitor.spec.podMetricsEndpoints;
  assert.equal(authorization.type, "Bearer");
  assert.equal(await ask(pod, path), 401);
  assert.equal(await ask(pod, path, apiKeys[0]!.key), 200);
  assert.equal(await ask("elsewhere.example", "/health"), 403);
});

Deno.test("deploy/kubernetes.yaml: a pod's IPv6 address is allowed as a host in brackets", () => {
  const { allowedHost } = readFlags({ HEARTH_ALLOWED_HOST: "hearth,fd00::1:2" });
  assert.deepEqual(allowedHost, ["hearth", "[fd00::1:2]"]);
});

for (const model of ["hearth-demo-chat", "hearth-demo-embed", "hearth-demo-matting"]) {
  Deno.test(`deploy/kubernetes.yaml: ${model} has the metric of the autoscaler`, async () => {
    const [{ pods }] = scaler.spec.metrics;
    await using app = await new TestApp({ model }).ready();
    const text = await (await app.request("/metrics")).text();
    assert.match(text, new RegExp(`^${pods.metric.name} 0$`, "m"));
    const [rule] = parse(adapter.data["config.yaml"]).rules;
    assert.ok(rule.seriesQuery.startsWith(`${pods.metric.name}{`));
  });
}

/** Violations of Pod Security "restricted" in a pod: kubernetes.io/docs/concepts/security/pod-security-standards. */
function violations(spec: Document): string[] {
  const of = (context: Document = {}) => ({ ...spec.securityContext, ...context });
  return [
    ...["hostNetwork", "hostPID", "hostIPC"].filter((name) => spec[name]),
    ...spec.volumes.flatMap(({ name, ...source }: Document) =>
      Object.keys(source).filter((type) =>
        ![
          "configMap",
          "csi",
          "downwardAPI",
          "emptyDir",
          "ephemeral",
          "persistentVolumeClaim",
          "projected",
          "secret",
        ].includes(type)
      ).map((type) => `${name}: ${type}`)
    ),
    ...spec.containers.flatMap(({ securityContext, ports }: Document) => {
      const context = of(securityContext);
      const { drop = [], add = [] } = context.capabilities ?? {};
      return [
        context.privileged && "privileged",
        context.allowPrivilegeEscalation !== false && "allowPrivilegeEscalation",
        !(context.runAsNonRoot === true) && "runAsNonRoot",
        context.runAsUser === 0 && "runAsUser",
        !["RuntimeDefault", "Localhost"].includes(context.seccompProfile?.type) && "seccompProfile",
        !drop.includes("ALL") && "capabilities.drop",
        add.some((name: string) => name !== "NET_BIND_SERVICE") && "capabilities.add",
        ports.some(({ hostPort }: Document) => hostPort) && "hostPort",
      ].filter((fault) => typeof fault === "string");
    }),
  ];
}

Deno.test('deploy/kubernetes.yaml fits the Pod Security level "restricted"', () => {
  assert.deepEqual(violations(pod), []);
  const { securityContext: _dropped, ...open } = container;
  assert.deepEqual(violations({ ...pod, containers: [open] }), [
    "allowPrivilegeEscalation",
    "capabilities.drop",
  ]);
});
