/**
 * Named settings, kept in this browser. New conversations begin with the default ones.
 *
 * @module
 */
import { type ChatSettings, DEFAULT_SETTINGS, readSettings } from "./conversation.ts";

const DEFAULT_KEY = "hearth.chat";
const PRESETS_KEY = "hearth.presets";

/** The preset that new conversations begin with. */
export const DEFAULT_NAME = "Default";

/** All presets by name, the default one first. */
export function loadPresets(): ReadonlyMap<string, ChatSettings> {
  const named = Object.entries(load(PRESETS_KEY)).sort(([a], [b]) => a.localeCompare(b));
  return new Map([
    [DEFAULT_NAME, defaultSettings()],
    ...named.map(([name, value]) => [name, readSettings(value)] as const),
  ]);
}

/** The settings of new conversations. */
export function defaultSettings(): ChatSettings {
  return readSettings({ ...DEFAULT_SETTINGS, ...load(DEFAULT_KEY) });
}

/** Keeps settings under a name, replacing those that had it. */
export function savePreset(name: string, settings: ChatSettings): void {
  if (name === DEFAULT_NAME) return store(DEFAULT_KEY, settings);
  store(PRESETS_KEY, { ...load(PRESETS_KEY), [name]: settings });
}

/** Forgets a preset; the default one becomes that of the model again. */
export function deletePreset(name: string): void {
  if (name === DEFAULT_NAME) return localStorage.removeItem(DEFAULT_KEY);
  const { [name]: _, ...others } = load(PRESETS_KEY);
  store(PRESETS_KEY, others);
}

function load(key: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(localStorage.getItem(key) ?? "{}");
    return typeof value === "object" && value !== null ? value as Record<string, unknown> : {};
  } catch {
    return {};
  }
}

function store(key: string, value: unknown): void {
  localStorage.setItem(key, JSON.stringify(value));
}
