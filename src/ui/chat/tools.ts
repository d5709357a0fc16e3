/**
 * What tools need: the servers that have them, and the runs that the user allowed.
 *
 * @module
 */
import { McpServers } from "./mcp_servers.ts";
import { ToolRuns } from "./tool_runs.ts";

export interface Tools {
  readonly servers: McpServers;
  readonly runs: ToolRuns;
}

/** Those of the page. */
export function createTools(): Tools {
  const servers = new McpServers();
  return { servers, runs: new ToolRuns(servers) };
}
