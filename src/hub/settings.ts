/**
 * The hub's address, token and cache folder: from the same environment variables as Python's huggingface_hub.
 *
 * @see https://huggingface.co/docs/huggingface_hub/package_reference/environment_variables
 * @module
 */
import { join } from "node:path";
import type { Environment } from "../base/config.ts";
import { findCacheFolder, findHubHome } from "./cache.ts";

const DEFAULT_ENDPOINT = "https://huggingface.co";
const DEFAULT_TIMEOUT_SECONDS = 30;

/** How to reach the hub. */
export interface HubSettings {
  /** `HF_ENDPOINT`, without a trailing slash. */
  readonly endpoint: string;
  /** `HF_TOKEN`, or the token that `hf auth login` stored. */
  readonly token: string | undefined;
  readonly cacheFolder: string;
  /** `HF_HUB_OFFLINE` or `--offline`: no requests are sent to the hub. */
  readonly isOffline: boolean;
  /** `HF_HUB_DOWNLOAD_TIMEOUT`: timeout of a connection without data. */
  readonly stallMs: number;
  /** Whether snapshots link to blobs; with `HF_HUB_DISABLE_SYMLINKS` they hold copies. */
  readonly usesLinks: boolean;
}

/** Reads the settings from the environment. `offline` comes from the command line and has precedence. */
export function readHubSettings(
  environment: Environment = Deno.env.toObject(),
  { offline = false }: { readonly offline?: boolean } = {},
): HubSettings {
  const { HF_ENDPOINT, HF_HUB_OFFLINE, HF_HUB_DOWNLOAD_TIMEOUT, HF_HUB_DISABLE_SYMLINKS } =
    environment;
  const seconds = Number(HF_HUB_DOWNLOAD_TIMEOUT);
  return {
    endpoint: (HF_ENDPOINT || DEFAULT_ENDPOINT).replace(/\/+$/, ""),
    token: readToken(environment),
    cacheFolder: findCacheFolder(environment),
    isOffline: offline || isOn(HF_HUB_OFFLINE),
    stallMs: 1000 * (seconds > 0 ? seconds : DEFAULT_TIMEOUT_SECONDS),
    usesLinks: !isOn(HF_HUB_DISABLE_SYMLINKS),
  };
}

function readToken(environment: Environment): string | undefined {
  const { HF_TOKEN, HF_TOKEN_PATH } = environment;
  if (HF_TOKEN?.trim()) return HF_TOKEN.trim();
  try {
    const path = HF_TOKEN_PATH || join(findHubHome(environment), "token");
    return Deno.readTextFileSync(path).trim() || undefined;
  } catch {
    // The user is not logged in.
    return undefined;
  }
}

/** Reads a switch as huggingface_hub does. */
function isOn(value: string | undefined): boolean {
  return ["1", "ON", "YES", "TRUE"].includes((value ?? "").toUpperCase());
}
