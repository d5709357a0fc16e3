import assert from "node:assert/strict";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { HearthProcess } from "../fixtures/hearth_process.ts";
import { chatBody, ENDLESS } from "../fixtures/server.ts";

const CONFIG = fileURLToPath(new URL("../../deploy/nginx.conf", import.meta.url));
const NGINX = ["/usr/sbin/nginx", "/usr/bin/nginx"].find((path) => {
  try {
    return Deno.statSync(path).isFile;
  } catch {
    return false;
  }
});
/** Skipped where nginx is not installed; `.ci/run` installs it. */
const ignore = NGINX === undefined;

function freePort(): number {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  return listener.addr.port;
}

/** nginx with the file of `deploy/`, on free ports. */
class Nginx implements AsyncDisposable {
  readonly #child: Deno.ChildProcess;
  readonly #folder: string;
  readonly url: string;

  private constructor(child: Deno.ChildProcess, folder: string, url: string) {
    this.#child = child;
    this.#folder = folder;
    this.url = url;
  }

  static async start(ports: readonly number[]): Promise<Nginx> {
    const folder = Deno.makeTempDirSync({ prefix: "hearth-nginx-" });
    const port = freePort();
    const site = Deno.readTextFileSync(CONFIG)
      .replace("127.0.0.1:10100", `127.0.0.1:${ports[0]}`)
      .replace("127.0.0.1:10101", `127.0.0.1:${ports[1]}`)
      .replace("listen 8080", `listen 127.0.0.1:${port}`);
    const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
      .map((name) => `${name}_temp_path ${folder}/${name};`).join(" ");
    Deno.writeTextFileSync(
      join(folder, "nginx.conf"),
      `daemon off; master_process off; pid ${folder}/pid; error_log ${folder}/error.log;
       events {} http { access_log off; ${temporary} ${site} }`,
    );
    const child = new Deno.Command(NGINX!, {
      args: ["-p", folder, "-e", `${folder}/error.log`, "-c", join(folder, "nginx.conf")],
      stdout: "null",
      stderr: "inherit",
    }).spawn();
    const url = `http://127.0.0.1:${port}`;
    while (true) {
      const answer = await fetch(`${url}/health`).catch(() => undefined);
      await answer?.body?.cancel();
      if (answer !== undefined) return new Nginx(child, folder, url);
      await pause(20);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill("SIGTERM");
    await this.#child.status;
    Deno.removeSync(this.#folder, { recursive: true });
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

function replica(port: number, flags: readonly string[] = []): HearthProcess {
  return new HearthProcess([
    ...["-p", String(port), "--device", "cpu", "--log-level", "error", "--drain-seconds", "10"],
    ...flags,
  ]);
}

function ask(url: string, extra: Record<string, unknown> = {}): Promise<Response> {
  return fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(chatBody({ max_tokens: 2, ...extra })),
  });
}

/** Requests that a replica has answered, by status. */
async function answered(port: number): Promise<Map<string, number>> {
  const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  const lines = text.matchAll(
    /hearth_http_requests_total\{route="\/chat\/completions",.*status="(\d+)"\} (\d+)/g,
  );
  return new Map([...lines].map(([, status, count]) => [status!, Number(count)]));
}

Deno.test(
  "nginx: a replica without a model answers nobody, and what is for this machine alone is closed",
  { ignore },
  async () => {
    const ports = [freePort(), freePort()];
    await using good = replica(ports[0]!);
    await using bad = replica(ports[1]!, ["-m", Deno.makeTempDirSync()]);
    await Promise.all([good.ready(), bad.url()]);
    await using nginx = await Nginx.start(ports);
    for (let n = 0; n < 20; n++) {
      const response = await ask(nginx.url);
      assert.equal(response.status, 200, await response.text());
    }
    assert.equal((await answered(ports[0]!)).get("200"), 20);
    assert.equal((await answered(ports[1]!)).get("200"), undefined);
    for (
      const path of [
        ...["/metrics", "/v1/metrics", "/metrics/", "//metrics", "/v1//metrics", "/%6detrics"],
        ...["/METRICS", "/x/../metrics", "/./metrics", "/metrics?x=1"],
        ...["/shutdown", "/v1/shutdown", "//v1/shutdown", "/shut%64own", "/shutdown/"],
      ]
    ) {
      const method = path.includes("etrics") || path.includes("ETRICS") ? "GET" : "POST";
      // As it is: fetch would tidy the path.
      const { hostname, port } = new URL(nginx.url);
      using connection = await Deno.connect({ hostname, port: Number(port) });
      const head =
        `${method} ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`;
      await connection.write(new TextEncoder().encode(head));
      const text = await new Response(connection.readable).text();
      assert.match(text, /^HTTP\/1\.1 403 .*/, path);
      assert.doesNotMatch(text, /hearth_/);
    }
    // nginx adds who asked: nothing that comes through it is local.
    const file = [{ type: "image_url", image_url: { url: "file:///etc/hostname" } }];
    const refused = await ask(nginx.url, { messages: [{ role: "user", content: file }] });
    assert.equal(refused.status, 400);
    await refused.body?.cancel();
  },
);

Deno.test("nginx: a replica that is killed ends its own streams alone", { ignore }, async () => {
  const ports = [freePort(), freePort()];
  await using first = replica(ports[0]!);
  await using second = replica(ports[1]!);
  await Promise.all([first.ready(), second.ready()]);
  await using nginx = await Nginx.start(ports);
  const streams = await Promise.all(
    Array.from({ length: 4 }, () => ask(nginx.url, { ...ENDLESS, max_tokens: 300, stream: true })),
  );
  const readers = streams.map((response) => response.body!.getReader());
  await Promise.all(readers.map((reader) => reader.read()));
  first.kill("SIGKILL");
  const ends = await Promise.all(readers.map(async (reader) => {
    let text = "";
    try {
      for (let read = await reader.read(); !read.done; read = await reader.read()) {
        text += new TextDecoder().decode(read.value);
      }
    } catch {
      return "broken";
    }
    return text.endsWith("data: [DONE]\n\n") ? "whole" : "broken";
  }));
  assert.deepEqual(
    ends.toSorted(),
    ["broken", "broken", "whole", "whole"],
    "least_conn shares them",
  );
  for (let n = 0; n < 10; n++) {
    const response = await ask(nginx.url);
    assert.equal(response.status, 200, await response.text());
  }
});

Deno.test("nginx: a rolling restart under load loses no request", { ignore }, async () => {
  const ports = [freePort(), freePort()];
  let replicas = ports.map((port) => replica(port));
  await Promise.all(replicas.map((each) => each.ready()));
  await using nginx = await Nginx.start(ports);
  const ends: string[] = [];
  let isOver = false;
  const client = async () => {
    while (!isOver) {
      const response = await ask(nginx.url);
      const text = await response.text();
      ends.push(
        response.status === 200 && text.includes("finish_reason")
          ? "200"
          : `${response.status} ${text}`,
      );
    }
  };
  const clients = Promise.all([client(), client(), client()]);
  for (const [index, port] of ports.entries()) {
    await pause(300);
    replicas[index]!.kill("SIGTERM");
    assert.equal((await replicas[index]!.ending).code, 0);
    const next = replica(port);
    replicas = replicas.with(index, next);
    await next.ready();
    // nginx asks it again after its fail_timeout.
    await pause(2_500);
  }
  isOver = true;
  await clients;
  for (const each of replicas) await each[Symbol.asyncDispose]();
  assert.deepEqual([...new Set(ends)], ["200"]);
  assert.ok(ends.length > 20);
});
