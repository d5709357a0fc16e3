/**
 * Connects to MCP servers over Streamable HTTP. This is a bundle of its own, loaded when a server is added.
 *
 * @module
 */
import {
  Client,
  StreamableHTTPClientTransport,
  UnauthorizedError,
} from "@modelcontextprotocol/client";
import { isOpenOrigin, SignIn } from "../mcp_sign_in.ts";

/** A tool as its server describes it. */
export interface RemoteTool {
  readonly name: string;
  readonly description: string;
  /** JSON schema of the tool's arguments. */
  readonly parameters: unknown;
}

export interface Connection {
  /** The server's name for itself. */
  readonly name: string;
  readonly tools: readonly RemoteTool[];
  /**
   * Runs a tool, and returns its result as text for the model.
   *
   * @throws when the server fails.
   */
  call(name: string, args: Record<string, unknown>, signal: AbortSignal): Promise<string>;
  close(): Promise<void>;
}

/** The outcome of {@linkcode connect}. */
export type Outcome =
  | { readonly type: "connected"; readonly connection: Connection }
  /** The user must sign in at `address`, which leads back to the page. */
  | { readonly type: "signed-out"; readonly address: string }
  /** The page's content security policy does not allow requests to this origin, which are needed to sign in. */
  | { readonly type: "closed"; readonly origin: string };

/**
 * Connects to a server.
 *
 * @param token sent as `Authorization: Bearer …`. If it is empty and the server requires one, OAuth is used.
 * @throws {Error} when the server does not answer as an MCP server, or accepts neither the token nor OAuth.
 */
export async function connect(url: string, token: string): Promise<Outcome> {
  const signIn = new SignIn(url);
  let closed: string | undefined;
  const transport = new StreamableHTTPClientTransport(new URL(url), {
    authProvider: token === "" ? signIn : { token: () => Promise.resolve(token) },
    fetch: (input, init) => {
      const { origin } = new URL(input);
      if (isOpenOrigin(origin)) return fetch(input, init);
      closed = origin;
      return Promise.reject(
        new TypeError(`The page is not allowed to send requests to ${origin}.`),
      );
    },
  });
  const client = new Client({ name: "hearth-page", version: "1" }, {
    versionNegotiation: { mode: "auto" },
  });
  try {
    if (signIn.answer !== undefined) await finishSignIn(transport, signIn.answer);
    await client.connect(transport);
  } catch (error) {
    if (signIn.address !== undefined) return { type: "signed-out", address: signIn.address };
    if (closed !== undefined) return { type: "closed", origin: closed };
    signIn.dropAnswer();
    throw explainRefusal(error as Error, token);
  }
  signIn.dropAnswer();
  return { type: "connected", connection: await describe(client, url) };
}

async function finishSignIn(
  transport: StreamableHTTPClientTransport,
  answer: URLSearchParams,
): Promise<void> {
  const refusal = answer.get("error_description") ?? answer.get("error");
  if (refusal !== null) throw new Error(`You were not signed in: ${refusal}`);
  await transport.finishAuth(answer);
}

function explainRefusal(error: Error, token: string): Error {
  if (!(error instanceof UnauthorizedError)) return error;
  return new Error(
    token === ""
      ? "The server requires a token."
      : "The server refused the token (401). Remove the server, then add it again with another token.",
  );
}

async function describe(client: Client, url: string): Promise<Connection> {
  const { tools } = await client.listTools();
  return {
    name: client.getServerVersion()?.name ?? new URL(url).host,
    tools: tools.map(({ name, description = "", inputSchema }) => ({
      name,
      description,
      parameters: inputSchema,
    })),
    call: async (name, args, signal) => {
      try {
        const result = await client.callTool({ name, arguments: args }, { signal });
        return describeResult(result as ToolResult);
      } catch (error) {
        if (!(error instanceof UnauthorizedError)) throw error;
        throw new Error("The sign-in has expired. Reload the page to sign in again.");
      }
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

/** Converts a tool's result to text; content of other kinds is only described. */
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
