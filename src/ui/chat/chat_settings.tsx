/**
 * The settings of a conversation: presets, system prompt, reasoning, sampling, and options for developers.
 *
 * @module
 */
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Check, Failure, QuietButton, SidePanel, TextField } from "../controls.tsx";
import { type ChatSettings, DEFAULT_SETTINGS, readSettings } from "./conversation.ts";
import { McpPanel, type McpServers } from "./mcp_servers.tsx";
import { call } from "../server.ts";

export function ChatSettingsPanel({ model, settings, servers, onChange }: {
  model: string;
  settings: ChatSettings;
  servers: McpServers;
  onChange: (settings: ChatSettings) => void;
}): JSX.Element {
  const [{ sampling, efforts }, setFields] = useState<RequestSettings>({
    sampling: [],
    efforts: [],
  });
  const [failure, setFailure] = useState<string>();
  useEffect(() => {
    loadRequestSettings(model).then(setFields).catch((error: Error) => setFailure(error.message));
  }, [model]);
  const setField = (name: string, value: number | undefined) => {
    const { [name]: _, ...others } = settings.sampling;
    onChange({
      ...settings,
      sampling: value === undefined ? others : { ...others, [name]: value },
    });
  };
  return (
    <SidePanel title="Settings" class="settings">
      <p class="soft">For this conversation</p>
      <PresetPicker settings={settings} onChange={onChange} />
      <TextField
        label="System prompt"
        rows={5}
        dir="auto"
        value={settings.system}
        onInput={(system) => onChange({ ...settings, system })}
      />
      <label>
        Thinking
        <select
          value={settings.effort}
          onChange={({ currentTarget: { value: effort } }) => onChange({ ...settings, effort })}
        >
          <option value="">default</option>
          {efforts.map((effort) => (
            <option key={effort} value={effort}>{effort === "none" ? "off" : effort}</option>
          ))}
        </select>
      </label>
      <fieldset>
        <legend>Sampling</legend>
        {sampling.map((field) => (
          <NumberField
            key={field.name}
            field={field}
            value={settings.sampling[field.name]}
            onChange={(value) => setField(field.name, value)}
          />
        ))}
      </fieldset>
      <Failure message={failure} />
      <McpPanel servers={servers} />
      <fieldset>
        <legend>For developers</legend>
        <Check
          label="Ask for token probabilities"
          isOn={settings.showsProbabilities}
          onChange={(showsProbabilities) => onChange({ ...settings, showsProbabilities })}
        />
        <TextField
          label="JSON schema of the answer"
          placeholder='{ "type": "object", … }'
          {...describeJson(settings.schema)}
          onInput={(schema) => onChange({ ...settings, schema })}
        />
        <TextField
          label="Tools"
          placeholder='[{ "type": "function", … }]'
          {...describeJson(settings.tools)}
          onInput={(tools) => onChange({ ...settings, tools })}
        />
      </fieldset>
    </SidePanel>
  );
}

function NumberField({ field, value, onChange }: {
  field: SamplingField;
  value: number | undefined;
  onChange: (value: number | undefined) => void;
}): JSX.Element {
  const { name, min, max, isInteger, description } = field;
  // Limits that are so large that any number fits are not shown.
  const low = min !== undefined && min > -1e9 ? min : undefined;
  const high = max !== undefined && max < 1e9 ? max : undefined;
  const range = high !== undefined ? ` (${low ?? "…"} to ${high})` : "";
  return (
    <label title={description}>
      {name}
      <small>{description}{range}</small>
      <input
        type="number"
        name={name}
        step={isInteger ? 1 : "any"}
        {...(low !== undefined && { min: low })}
        {...(high !== undefined && { max: high })}
        value={value ?? ""}
        onChange={({ currentTarget: { value: text, valueAsNumber, validity } }) => {
          if (text === "") onChange(undefined);
          else if (validity.valid) onChange(valueAsNumber);
        }}
      />
    </label>
  );
}

/** Returns the properties of a text field that holds JSON or is empty. */
function describeJson(value: string) {
  const field = { class: "json", rows: 3, spellcheck: false, value };
  try {
    JSON.parse(value.trim() || "{}");
    return field;
  } catch {
    return { ...field, "aria-invalid": true };
  }
}

/** A numeric field of a chat request. */
interface SamplingField {
  readonly name: string;
  readonly isInteger: boolean;
  readonly min: number | undefined;
  readonly max: number | undefined;
  /** The description, which includes the default. */
  readonly description: string;
}

/** The fields that a chat request may have. */
interface RequestSettings {
  readonly sampling: readonly SamplingField[];
  /** Possible values of `reasoning_effort`. */
  readonly efforts: readonly string[];
}

interface Schema {
  readonly enum?: readonly string[];
  readonly type?: string | readonly string[];
  readonly anyOf?: readonly Schema[];
  readonly minimum?: number;
  readonly maximum?: number;
  readonly description?: string;
  /** Whether the field is another name of one that is preferred. */
  readonly deprecated?: boolean;
  readonly properties?: Readonly<Record<string, Schema>>;
}

/** Fields that the page sets itself, or that are of no use in it. */
const OWN = new Set(["n", "top_logprobs", "max_completion_tokens", "prompt_logprobs"]);

/** Reads the fields from `/openapi.json` of the model's server. */
async function loadRequestSettings(model: string): Promise<RequestSettings> {
  const path = `openapi.json?model=${encodeURIComponent(model)}`;
  const description = await (await call(path)).json() as {
    components: { schemas: Record<string, Schema> };
  };
  const properties = description.components.schemas["ChatRequest"]?.properties ?? {};
  const effort = properties["reasoning_effort"];
  const efforts = [effort ?? {}, ...effort?.anyOf ?? []].find((each) => each.enum)?.enum ?? [];
  const sampling = Object.entries(properties).flatMap(([name, schema]) => {
    const number = [schema, ...schema.anyOf ?? []].find(isNumber);
    if (number === undefined || OWN.has(name) || schema.deprecated) return [];
    return [{
      name,
      isInteger: listTypes(number).includes("integer"),
      min: number.minimum,
      max: number.maximum,
      description: schema.description ?? "",
    }];
  });
  return { sampling, efforts };
}

function listTypes({ type }: Schema): readonly string[] {
  return type === undefined ? [] : [type].flat();
}

function isNumber(schema: Schema): boolean {
  return listTypes(schema).some((type) => type === "number" || type === "integer");
}

const DEFAULT_KEY = "hearth.chat";
const PRESETS_KEY = "hearth.presets";

/** Name of the preset for new conversations. */
const DEFAULT_NAME = "Default";

/** Loads all presets by name, the default one first. */
function loadPresets(): ReadonlyMap<string, ChatSettings> {
  const named = Object.entries(load(PRESETS_KEY)).sort(([a], [b]) => a.localeCompare(b));
  return new Map([
    [DEFAULT_NAME, loadDefaultSettings()],
    ...named.map(([name, value]) => [name, readSettings(value)] as const),
  ]);
}

/** Loads the settings of new conversations. */
export function loadDefaultSettings(): ChatSettings {
  return readSettings({ ...DEFAULT_SETTINGS, ...load(DEFAULT_KEY) });
}

/** Stores settings under a name, replacing earlier ones. */
function savePreset(name: string, settings: ChatSettings): void {
  if (name === DEFAULT_NAME) return store(DEFAULT_KEY, settings);
  store(PRESETS_KEY, { ...load(PRESETS_KEY), [name]: settings });
}

/** Deletes a preset. Deleting the default preset resets it to the model's defaults. */
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

function PresetPicker({ settings, onChange }: {
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
        <QuietButton onClick={() => forget(current)}>
          {current === DEFAULT_NAME ? "Reset to the model's defaults" : `Delete preset ${current}`}
        </QuietButton>
      )}
      <small>New conversations begin with the preset {DEFAULT_NAME}.</small>
    </fieldset>
  );
}
