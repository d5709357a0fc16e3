/**
 * Models named by their pages on the hub, as they are copied from a browser.
 *
 * @module
 */
import { StartupError } from "../base/errors.ts";

const HOSTS = ["huggingface.co", "www.huggingface.co", "hf.co"];
/** Parts of the hub whose pages are no models'. */
const OTHER_PAGES = ["datasets", "spaces", "collections", "papers", "docs", "blog"];

/**
 * Turns a page's address into the name of its model.
 *
 * ```ts
 * import { readHubUrl } from "./hub_url.ts";
 * import assert from "node:assert/strict";
 *
 * assert.equal(readHubUrl("https://huggingface.co/Xenova/modnet/tree/main"), "Xenova/modnet");
 * assert.equal(readHubUrl("hf.co/Xenova/modnet"), "Xenova/modnet");
 * assert.equal(readHubUrl("Xenova/modnet"), undefined);
 * ```
 *
 * @param endpoint another address of a hub, whose pages count too.
 * @returns `owner/name`, `@revision` where the address has one other than `main`, and `:tag` where it ends so, as
 * Ollama's names of hub models do; `undefined` for what is no address of the hub.
 * @throws {StartupError} for a page that is not a model's, and for an address elsewhere.
 */
export function readHubUrl(text: string, endpoint?: string): string | undefined {
  const name = text.trim().replace(/^hf:\/\/(models\/)?/i, "https://hf.co/");
  const [, scheme, rest = ""] = /^(https?:\/\/)?(.*)$/i.exec(name) ?? [];
  const hosts = [
    ...HOSTS,
    ...endpoint === undefined ? [] : [endpoint.replace(/^https?:\/\//i, "")],
  ];
  const host = hosts.find((each) => rest.toLowerCase().startsWith(`${each.toLowerCase()}/`));
  if (host === undefined) {
    if (scheme === undefined) return undefined;
    throw new StartupError(`${text} is no address of a model: wanted ${WANTED}.`);
  }
  const [path = ""] = rest.slice(host.length + 1).split(/[?#]/, 1);
  const parts = path.split("/").filter((part) => part !== "").map(decode);
  if (parts[0] === "models") parts.shift();
  const [owner, model, page, revision] = parts;
  if (owner === undefined || model === undefined || OTHER_PAGES.includes(owner)) {
    throw new StartupError(`${text} is no model's page: wanted ${WANTED}.`);
  }
  const hasRevision = page !== undefined && ["tree", "blob", "resolve", "commit"].includes(page);
  const at = hasRevision && revision !== undefined && revision !== "main" ? `@${revision}` : "";
  return `${owner}/${model}${at}`;
}

const WANTED = "https://huggingface.co/owner/name, or owner/name alone";

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
