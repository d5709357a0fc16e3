/**
 * The MCP servers whose tools the model may call, and the panel in which the user adds and removes servers. Their
 * addresses are stored in this browser, and the page connects to them when it opens. The page's content security
 * policy allows connections only to origins that are listed in the page's own address.
 *
 * @module
 */
import { loadPart } from "../server.ts";
import { Observed, useObserved } from "./chat_state.ts";
import type { Connection, RemoteTool } from "../lazy/mcp.ts";
import {
  forgetSignIn,
  isOpenOrigin,
  keepOrigin,
  listSignInOrigins,
  receiveAnswer,
} from "../mcp_sign_in.ts";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Failure, TextField } from "../controls.tsx";

/** A server that the user added. */
interface McpServer {
  readonly url: string;
  readonly state: "connecting" | "connected" | "signed out" | "failed";
  readonly name?: string;
  readonly tools: readonly RemoteTool[];
  readonly failure?: string;
  /** Address at which the user signs in. */
  readonly signInAddress?: string;
}

const SERVERS_KEY = "hearth.mcp";
/** Storage key of the tokens, which are kept for this tab only. */
const TOKENS_KEY = "hearth.mcp.tokens";

export class McpServers {
  /** The servers that the user has added. */
  readonly observed = new Observed<readonly McpServer[]>([]);
  readonly #connections = new Map<string, Connection>();
  #isStarted = false;

  /** Connects to the stored servers. Reloads the page if its address does not list their origins. */
  start(): void {
    if (this.#isStarted) return;
    this.#isStarted = true;
    receiveAnswer();
    const urls = readUrls();
    if (openPolicyFor(urls)) return;
    for (const url of urls) this.#connect(url);
  }

  /**
   * Adds a server.
   *
   * @throws {Error} when the text is not a server's address.
   */
  add(text: string, token: string): void {
    const url = parseUrl(text);
    const urls = [...readUrls().filter((each) => each !== url), url];
    localStorage.setItem(SERVERS_KEY, JSON.stringify(urls));
    const tokens = { ...readTokens(), [url]: token };
    sessionStorage.setItem(TOKENS_KEY, JSON.stringify(tokens));
    if (!openPolicyFor(urls)) this.#connect(url);
  }

  /** Tries again to connect to a server. */
  retry(url: string): void {
    this.#connect(url);
  }

  remove(url: string): void {
    localStorage.setItem(SERVERS_KEY, JSON.stringify(readUrls().filter((each) => each !== url)));
    forgetSignIn(url);
    this.#connections.get(url)?.close().catch(() => {});
    this.#connections.delete(url);
    this.observed.value = this.observed.value.filter((server) => server.url !== url);
  }

  /** Describes the tools in the format of OpenAI's API, each with a unique name. */
  definitions(): unknown[] {
    return this.#named().map(({ name, tool: { description, parameters } }) => ({
      type: "function",
      function: { name, description, parameters },
    }));
  }

  /** Finds the server and the tool that a name stands for. */
  find(
    name: string,
  ): { readonly url: string; readonly server: string; readonly tool: string } | undefined {
    const found = this.#named().find((each) => each.name === name);
    return found && { url: found.url, server: found.server, tool: found.tool.name };
  }

  /** Runs the tool that a name stands for. @param json the arguments as the model wrote them. */
  async call(name: string, json: string, signal: AbortSignal): Promise<string> {
    const found = this.find(name);
    const connection = found && this.#connections.get(found.url);
    if (connection === undefined) throw new Error(`The tool ${name} is no longer available.`);
    let args: unknown;
    try {
      args = JSON.parse(json.trim() || "{}");
    } catch (error) {
      throw new Error(`The arguments are not JSON: ${(error as Error).message}`);
    }
    return await connection.call(found!.tool, args as Record<string, unknown>, signal);
  }

  /** Gives each tool a name of letters, digits, _ and -, with at most 64 characters, as OpenAI's API requires. */
  #named(): { name: string; url: string; server: string; tool: RemoteTool }[] {
    const taken = new Set<string>();
    return this.observed.value.flatMap(({ url, name: server = url, tools }) =>
      tools.map((tool) => {
        const plain = tool.name.replaceAll(/[^\w-]/g, "_").slice(0, 60);
        let name = plain;
        for (let count = 2; taken.has(name); count++) name = `${plain}_${count}`;
        taken.add(name);
        return { name, url, server, tool };
      })
    );
  }

  async #connect(url: string): Promise<void> {
    this.#put({ url, state: "connecting", tools: [] });
    try {
      const { connect } = await loadPart("mcp");
      const outcome = await connect(url, readTokens()[url] ?? "");
      if (outcome.type === "closed") {
        keepOrigin(url, outcome.origin);
        openPolicyFor(readUrls());
        return;
      }
      if (outcome.type === "signed-out") {
        const { address: signInAddress } = outcome;
        return this.#put({ url, state: "signed out", tools: [], signInAddress });
      }
      const { connection } = outcome;
      this.#connections.set(url, connection);
      this.#put({ url, state: "connected", name: connection.name, tools: connection.tools });
    } catch (error) {
      this.#put({ url, state: "failed", tools: [], failure: explain(error as Error) });
    }
  }

  #put(server: McpServer): void {
    const servers = this.observed.value;
    const at = servers.findIndex(({ url }) => url === server.url);
    this.observed.value = at < 0 ? [...servers, server] : servers.with(at, server);
  }
}

/** Explains a failure. Browsers do not say why a request was blocked. */
function explain({ message }: Error): string {
  return /failed to fetch|networkerror|load failed/i.test(message)
    ? `The server does not answer, or does not allow requests from ${location.origin} (CORS).`
    : message;
}

function parseUrl(text: string): string {
  const url = URL.parse(text.trim());
  if (url === null || !/^https?:$/.test(url.protocol)) {
    throw new Error(`"${text.trim()}" is not an address such as https://example.org/mcp.`);
  }
  return url.href;
}

function readUrls(): string[] {
  try {
    const urls: unknown = JSON.parse(localStorage.getItem(SERVERS_KEY) ?? "[]");
    return Array.isArray(urls)
      ? urls.filter((url) => typeof url === "string" && URL.canParse(url))
      : [];
  } catch {
    return [];
  }
}

function readTokens(): Record<string, string> {
  return JSON.parse(sessionStorage.getItem(TOKENS_KEY) ?? "{}");
}

/** Reloads the page with the servers' origins in its address if one is missing there. @returns whether it reloads. */
function openPolicyFor(urls: readonly string[]): boolean {
  const own = urls.map((url) => new URL(url).origin).filter((origin) => origin !== location.origin);
  const origins = new Set([...own, ...listSignInOrigins(urls)]);
  if ([...origins].every(isOpenOrigin)) return false;
  const address = new URL(location.href);
  address.searchParams.delete("connect");
  for (const origin of origins) address.searchParams.append("connect", origin);
  location.replace(address);
  return true;
}

export function McpPanel({ servers }: { servers: McpServers }): JSX.Element {
  const list = useObserved(servers.observed);
  const [url, setUrl] = useState("");
  const [token, setToken] = useState("");
  const [failure, setFailure] = useState<string>();
  const add = () => {
    try {
      servers.add(url, token);
      setUrl("");
      setToken("");
      setFailure(undefined);
    } catch (error) {
      setFailure((error as Error).message);
    }
  };
  return (
    <fieldset>
      <legend>Tools of MCP servers</legend>
      {list.length > 0 && (
        <ul>
          {list.map((server) => <Entry key={server.url} server={server} servers={servers} />)}
        </ul>
      )}
      <form
        class="stack"
        onSubmit={(event) => {
          event.preventDefault();
          add();
        }}
      >
        <TextField
          label="Address"
          inputMode="url"
          placeholder="https://example.org/mcp"
          value={url}
          onInput={setUrl}
        />
        <TextField
          label="Token"
          hint="Only if the server requires one and has no sign-in. It is kept until this tab is closed."
          type="password"
          autocomplete="off"
          value={token}
          onInput={setToken}
        />
        <button type="submit" disabled={url.trim() === ""}>Add server</button>
      </form>
      <Failure message={failure} />
      <small>Streamable HTTP. Each call is shown and waits until you allow it.</small>
    </fieldset>
  );
}

function Entry({ server, servers }: { server: McpServer; servers: McpServers }): JSX.Element {
  const { url, state, name = url, tools, failure, signInAddress } = server;
  return (
    <li class="stack">
      <details>
        <summary>
          {name}{" "}
          <span class="soft" role="status">
            {state === "connected" ? `${tools.length} tools` : state}
          </span>
        </summary>
        <ul>
          {tools.map((tool) => (
            <li key={tool.name} class="stack">
              <code>{tool.name}</code>
              <small>{tool.description}</small>
            </li>
          ))}
        </ul>
      </details>
      <Failure message={failure} />
      <div class="row">
        {signInAddress && (
          <button type="button" onClick={() => location.assign(signInAddress)}>Sign in</button>
        )}
        {state === "failed" && (
          <button type="button" onClick={() => servers.retry(url)}>Try again</button>
        )}
        <button type="button" aria-label={`Remove ${name}`} onClick={() => servers.remove(url)}>
          Remove
        </button>
      </div>
    </li>
  );
}
