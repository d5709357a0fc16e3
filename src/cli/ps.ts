/**
 * `ps`: the servers that run.
 *
 * @module
 */
import { formatDuration } from "./download_report.ts";
import { printLine } from "./print.ts";
import { askState, findRunning } from "./running.ts";
import { formatTable } from "./table.ts";

/** Prints a line per server. @returns 0. */
export async function ps({ json }: { readonly json: boolean }): Promise<number> {
  const servers = await Promise.all((await findRunning()).map(async (server) => {
    const uptimeSeconds = Math.round((Date.now() - Date.parse(server.startedAt)) / 1000);
    return { ...server, state: await askState(server), uptimeSeconds };
  }));
  if (json) printLine(JSON.stringify(servers, undefined, 2));
  else if (servers.length === 0) printLine("No server runs.");
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
