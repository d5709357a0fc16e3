/**
 * Signs in to MCP servers that require OAuth. The state of a sign-in is kept while the browser visits the authorization
 * server and comes back. Like tokens, it is kept for this tab only.
 *
 * @module
 */
import type { OAuthClientProvider, OAuthDiscoveryState } from "@modelcontextprotocol/client";

const KEY = "hearth.mcp.sign_in";

type Client = Awaited<ReturnType<OAuthClientProvider["clientInformation"]>>;
type Tokens = Awaited<ReturnType<OAuthClientProvider["tokens"]>>;

/** The stored state of the sign-in to a server. */
interface Kept {
  readonly client?: Client;
  readonly tokens?: Tokens;
  readonly verifier?: string;
  readonly discovery?: OAuthDiscoveryState | undefined;
  readonly state?: string;
  /** The fragment of the page's address before the sign-in: `#/c/…`. */
  readonly hash?: string;
  /** The query string of the authorization server's redirect. */
  readonly answer?: string | undefined;
  /** Origins that the sign-in needs and that the page's content security policy must therefore allow. */
  readonly origins?: readonly string[];
}

function readAll(): Record<string, Kept> {
  return JSON.parse(sessionStorage.getItem(KEY) ?? "{}");
}

function change(url: string, fields: Kept): void {
  const all = readAll();
  sessionStorage.setItem(KEY, JSON.stringify({ ...all, [url]: { ...all[url], ...fields } }));
}

/** Lists the origins that the page must be allowed to reach in order to sign in to these servers. */
export function listSignInOrigins(urls: readonly string[]): string[] {
  const all = readAll();
  return urls.flatMap((url) => all[url]?.origins ?? []);
}

/** Whether the page's content security policy, which depends on its address, allows requests to an origin. */
export function isOpenOrigin(origin: string): boolean {
  const { searchParams } = new URL(location.href);
  return origin === location.origin || searchParams.getAll("connect").includes(origin);
}

/** Remembers an origin for {@linkcode listSignInOrigins}. */
export function keepOrigin(url: string, origin: string): void {
  change(url, { origins: [...readAll()[url]?.origins ?? [], origin] });
}

/** Forgets everything about the sign-in to a server. */
export function forgetSignIn(url: string): void {
  const { [url]: _, ...others } = readAll();
  sessionStorage.setItem(KEY, JSON.stringify(others));
}

/** If the browser has come back from an authorization server, keeps the answer and restores the page's address. */
export function receiveAnswer(): void {
  const { searchParams, search } = new URL(location.href);
  const state = searchParams.get("state");
  const [url, kept] = Object.entries(readAll()).find(([, each]) => each.state === state) ?? [];
  if (state === null || url === undefined) return;
  change(url, { answer: search, state: "" });
  history.replaceState(null, "", `${location.pathname}${kept!.hash ?? ""}`);
}

/** The sign-in to one server, as the MCP package uses it. */
export class SignIn implements OAuthClientProvider {
  /** Address at which the user must sign in, if necessary. */
  address: string | undefined;
  readonly redirectUrl = `${location.origin}${location.pathname}`;
  readonly clientMetadata = {
    client_name: "Hearth",
    redirect_uris: [this.redirectUrl],
    grant_types: ["authorization_code", "refresh_token"],
    response_types: ["code"],
    token_endpoint_auth_method: "none",
  };
  readonly #url: string;

  constructor(url: string) {
    this.#url = url;
  }

  get #kept(): Kept {
    return readAll()[this.#url] ?? {};
  }

  /** The answer kept by {@linkcode receiveAnswer}, until it is dropped. */
  get answer(): URLSearchParams | undefined {
    const { answer } = this.#kept;
    return answer === undefined ? undefined : new URLSearchParams(answer);
  }

  dropAnswer(): void {
    change(this.#url, { answer: undefined });
  }

  state(): string {
    const state = crypto.randomUUID();
    change(this.#url, { state, hash: location.hash });
    return state;
  }

  clientInformation(): Client {
    return this.#kept.client;
  }

  saveClientInformation(client: Client): void {
    change(this.#url, { client });
  }

  tokens(): Tokens {
    return this.#kept.tokens;
  }

  saveTokens(tokens: Tokens): void {
    change(this.#url, { tokens });
  }

  redirectToAuthorization(address: URL): void {
    // The page shows a button with this address: it would surprise the user if the page left by itself.
    this.address = address.href;
  }

  saveCodeVerifier(verifier: string): void {
    change(this.#url, { verifier });
  }

  codeVerifier(): string {
    return this.#kept.verifier ?? "";
  }

  saveDiscoveryState(discovery: OAuthDiscoveryState): void {
    change(this.#url, { discovery });
  }

  discoveryState(): OAuthDiscoveryState | undefined {
    return this.#kept.discovery;
  }

  invalidateCredentials(scope: string): void {
    if (scope === "all") forgetSignIn(this.#url);
    if (scope === "client") change(this.#url, { client: undefined });
    if (scope === "tokens") change(this.#url, { tokens: undefined });
    if (scope === "discovery") change(this.#url, { discovery: undefined });
  }
}
