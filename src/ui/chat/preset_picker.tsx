/**
 * Takes a conversation's settings from a preset, and keeps them as one.
 *
 * @module
 */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { ChatSettings } from "./conversation.ts";
import { DEFAULT_NAME, deletePreset, loadPresets, savePreset } from "./presets.ts";

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
          placeholder="Keep as …"
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
          {current === DEFAULT_NAME ? "Reset to the model's own" : `Delete preset ${current}`}
        </button>
      )}
      <small>New conversations begin with the preset {DEFAULT_NAME}.</small>
    </fieldset>
  );
}
