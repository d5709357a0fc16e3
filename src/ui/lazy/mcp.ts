/**
 * Connects with MCP servers over Streamable HTTP. A bundle of its own, loaded when a server is added.
 *
 * @module
 */
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

/** A tool as its server describes it. */
export interface RemoteTool {
  readonly name: string;
  readonly description: string;
  /** JSON schema of its arguments. */
  readonly parameters: unknown;
}

/** A server that answers. */
export interface Connection {
  /** The server's name for itself. */
  readonly name: string;
  readonly tools: readonly RemoteTool[];
  /** Runs a tool, and returns what the model reads of its result. @throws when the server fails. */
  call(name: string, args: Record<string, unknown>, signal: AbortSignal): Promise<string>;
  close(): Promise<void>;
}

/**
 * @param token sent as `Authorization: Bearer …`; none if empty.
 * @throws {Error} when the server does not answer as an MCP server.
 */
export async function connect(url: string, token: string): Promise<Connection> {
  const transport = new StreamableHTTPClientTransport(new URL(url), {
    requestInit: token === "" ? {} : { headers: { authorization: `Bearer ${token}` } },
  });
  const client = new Client({ name: "hearth-page", version: "1" }, {
    versionNegotiation: { mode: "auto" },
  });
  await client.connect(transport);
  const { tools } = await client.listTools();
  return {
    name: client.getServerVersion()?.name ?? new URL(url).host,
    tools: tools.map(({ name, description = "", inputSchema }) => ({
      name,
      description,
      parameters: inputSchema,
    })),
    call: async (name, args, signal) => {
      const result = await client.callTool({ name, arguments: args }, { signal });
      return describeResult(result as ToolResult);
    },
    close: () => client.close(),
  };
}

interface ToolResult {
  readonly content?: readonly {
    readonly type: string;
    readonly text?: string;
    readonly mimeType?: string;
    readonly uri?: string;
    readonly resource?: { readonly uri: string; readonly text?: string };
  }[];
  readonly structuredContent?: unknown;
  readonly isError?: boolean;
}

/** Text as it is; of all else, what it is. */
function describeResult({ content = [], structuredContent, isError }: ToolResult): string {
  const parts = content.map(({ type, text, mimeType, uri, resource }) => {
    if (text !== undefined) return text;
    if (resource !== undefined) return resource.text ?? `[${resource.uri}]`;
    return `[${[type, mimeType, uri].filter(Boolean).join(" ")}]`;
  });
  if (parts.length === 0 && structuredContent !== undefined) {
    parts.push(JSON.stringify(structuredContent));
  }
  const whole = parts.join("\n");
  return isError ? `Error: ${whole}` : whole;
}
