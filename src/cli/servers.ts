/**
 * `ps` and `stop`: list and stop running servers.
 *
 * @module
 */
import { formatDuration } from "./loading.ts";
import { formatTable, printLine } from "./print.ts";
import { askState, findRunning, NO_ANSWER, type RunningServer } from "./running.ts";
import { StartupError } from "../base/errors.ts";
import { sleep } from "../base/timing.ts";
import { UsageError } from "./command.ts";

/** Prints one line per server. @returns 0. */
export async function ps({ json }: { readonly json: boolean }): Promise<number> {
  const servers = await Promise.all((await findRunning()).map(async (server) => {
    const uptimeSeconds = Math.round((Date.now() - Date.parse(server.startedAt)) / 1000);
    return { ...server, state: await askState(server), uptimeSeconds };
  }));
  if (json) printLine(JSON.stringify(servers, undefined, 2));
  else if (servers.length === 0) printLine("No server is running.");
  else {
    const rows = servers.map(({ pid, model, url, uptimeSeconds, state }) => [
      String(pid),
      model,
      url,
      formatDuration(uptimeSeconds),
      state,
    ]);
    for (const line of formatTable([["PID", "MODEL", "ADDRESS", "UP", "STATE"], ...rows])) {
      printLine(line);
    }
  }
  return 0;
}

/** Time that a server may take to stop after its requests are done, since freeing a device may take a while. */
const MAX_STOP_SECONDS = 10;
const LOOK_EVERY_MS = 50;

/**
 * Stops the server on `port`, or the only server, and waits until it is gone.
 *
 * @returns 0 when the server is gone.
 * @throws {StartupError} when there is no such server, there are several and no port is given, or the server does not
 * stop in time.
 */
export async function stop(port: string | undefined): Promise<number> {
  const server = chooseServer(await findRunning(), port);
  await askToStop(server);
  const timeoutSeconds = computeStopTimeout(server);
  const deadline = performance.now() + 1000 * timeoutSeconds;
  // A stopping server removes its file last. The process itself may remain until its parent reaps it.
  while ((await findRunning()).some(({ pid }) => pid === server.pid)) {
    if (performance.now() > deadline) {
      throw new StartupError(
        `Process ${server.pid} was asked to stop ${timeoutSeconds} s ago and is still running.`,
      );
    }
    await sleep(LOOK_EVERY_MS);
  }
  printLine(`Stopped ${server.model} at ${server.url}.`);
  return 0;
}

/** Computes how many seconds a server may take to stop: the grace period of its requests, and some more. */
export function computeStopTimeout(
  { drainSeconds = 0 }: Pick<RunningServer, "drainSeconds">,
): number {
  return drainSeconds + MAX_STOP_SECONDS;
}

function chooseServer(servers: readonly RunningServer[], port: string | undefined): RunningServer {
  if (port !== undefined && !/^\d+$/.test(port)) {
    throw new UsageError(`stop wants a port, got "${port}".`);
  }
  const wanted = servers.filter((server) => port === undefined || server.port === Number(port));
  const [server] = wanted;
  if (server !== undefined && wanted.length === 1) return server;
  const known = servers.map(({ port, model }) => `${port} (${model})`).join(", ");
  if (server !== undefined) {
    throw new StartupError(`Several servers are running; name a port: ${known}.`);
  }
  const where = port === undefined ? "" : ` on port ${port}`;
  const others = servers.length === 0 ? "" : `; there are ${known}`;
  throw new StartupError(`No server is running${where}${others}.${explainPid(servers, port)}`);
}

/** Returns a sentence with the right port if a process id was given as the port, or else an empty text. */
function explainPid(servers: readonly RunningServer[], port: string | undefined): string {
  const meant = servers.find(({ pid }) => pid === Number(port));
  return meant === undefined ? "" : ` ${port} is a process id; its port is ${meant.port}.`;
}

async function askToStop(server: RunningServer): Promise<void> {
  const { pid, url } = server;
  // The process id of a killed server may have been reused by an unrelated process.
  if (await askState(server) === NO_ANSWER) {
    throw new StartupError(
      `Process ${pid} should be the server at ${url}, but nothing answers there. If it is Hearth: kill ${pid}`,
    );
  }
  // On Windows this would end the process at once, with its requests unfinished.
  if (Deno.build.os !== "windows") return Deno.kill(pid, "SIGTERM");
  const key = Deno.env.get("HEARTH_API_KEY");
  const response = await fetch(`${url}/shutdown`, {
    method: "POST",
    headers: key === undefined ? {} : { authorization: `Bearer ${key}` },
  });
  const text = await response.text();
  if (!response.ok) throw new StartupError(`${url} refuses to stop: ${response.status}, ${text}`);
}
