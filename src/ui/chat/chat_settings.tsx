/**
 * The settings of a conversation: presets, system prompt, reasoning, sampling, and options for developers.
 *
 * @module
 */
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Failure, SidePanel } from "../controls.tsx";
import type { ChatSettings } from "./conversation.ts";
import { McpPanel } from "./mcp_panel.tsx";
import type { McpServers } from "./mcp_servers.ts";
import { PresetPicker } from "./presets.tsx";
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
      <label>
        System prompt
        <textarea
          rows={5}
          dir="auto"
          value={settings.system}
          onInput={(event) => onChange({ ...settings, system: event.currentTarget.value })}
        />
      </label>
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
        <label class="check">
          <input
            type="checkbox"
            checked={settings.showsProbabilities}
            onChange={(event) =>
              onChange({ ...settings, showsProbabilities: event.currentTarget.checked })}
          />
          Ask for token probabilities
        </label>
        <JsonBox
          label="JSON schema of the answer"
          placeholder='{ "type": "object", … }'
          value={settings.schema}
          onInput={(schema) => onChange({ ...settings, schema })}
        />
        <JsonBox
          label="Tools"
          placeholder='[{ "type": "function", … }]'
          value={settings.tools}
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
  // Limits so large that they mean "any number" are not shown.
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

function JsonBox({ label, placeholder, value, onInput }: {
  label: string;
  placeholder: string;
  value: string;
  onInput: (text: string) => void;
}): JSX.Element {
  return (
    <label>
      {label}
      <textarea
        class="json"
        rows={3}
        spellcheck={false}
        placeholder={placeholder}
        aria-invalid={value.trim() !== "" && !isJson(value)}
        value={value}
        onInput={(event) => onInput(event.currentTarget.value)}
      />
    </label>
  );
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
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

/** Fields that the page itself sets, or that are useless in it. */
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
