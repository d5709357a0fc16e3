/**
 * Presets, which are named chat settings, and their picker.
 *
 * @module
 */
import { type ChatSettings, DEFAULT_SETTINGS, readSettings } from "./conversation.ts";
import type { JSX } from "preact";
import { useState } from "preact/hooks";

const DEFAULT_KEY = "hearth.chat";
const PRESETS_KEY = "hearth.presets";

/** Name of the preset for new conversations. */
const DEFAULT_NAME = "Default";

/** All presets by name, the default one first. */
function loadPresets(): ReadonlyMap<string, ChatSettings> {
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

/** Stores settings under a name, replacing earlier ones. */
function savePreset(name: string, settings: ChatSettings): void {
  if (name === DEFAULT_NAME) return store(DEFAULT_KEY, settings);
  store(PRESETS_KEY, { ...load(PRESETS_KEY), [name]: settings });
}

/** Deletes a preset. The default preset goes back to the model's defaults. */
function deletePreset(name: string): void {
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

export function PresetPicker({ settings, onChange }: {
  settings: ChatSettings;
  onChange: (settings: ChatSettings) => void;
}): JSX.Element {
  const [presets, setPresets] = useState(loadPresets);
  const [name, setName] = useState("");
  const wanted = JSON.stringify(settings);
  const [current] = [...presets].find(([, each]) => JSON.stringify(each) === wanted) ?? [];
  const save = () => {
    savePreset(name.trim(), settings);
    setPresets(loadPresets());
    setName("");
  };
  const forget = (preset: string) => {
    deletePreset(preset);
    const left = loadPresets();
    setPresets(left);
    if (preset === DEFAULT_NAME) onChange(left.get(DEFAULT_NAME)!);
  };
  return (
    <fieldset>
      <label>
        Preset
        <select
          value={current ?? ""}
          onChange={({ currentTarget: { value } }) => onChange(presets.get(value)!)}
        >
          {current === undefined && <option value="">changed</option>}
          {[...presets.keys()].map((preset) => <option key={preset} value={preset}>{preset}
          </option>)}
        </select>
      </label>
      <form
        class="row"
        onSubmit={(event) => {
          event.preventDefault();
          save();
        }}
      >
        <input
          aria-label="Name of a preset"
          placeholder="Save as …"
          list="presets"
          required
          maxLength={60}
          value={name}
          onInput={(event) => setName(event.currentTarget.value)}
        />
        <datalist id="presets">
          {[...presets.keys()].map((preset) => <option key={preset} value={preset} />)}
        </datalist>
        <button type="submit" disabled={name.trim() === ""}>Save preset</button>
      </form>
      {current !== undefined && (
        <button type="button" class="quiet" onClick={() => forget(current)}>
          {current === DEFAULT_NAME ? "Reset to the model's defaults" : `Delete preset ${current}`}
        </button>
      )}
      <small>New conversations begin with the preset {DEFAULT_NAME}.</small>
    </fieldset>
  );
}
