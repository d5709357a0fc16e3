/**
 * A family of models: how its folders are recognised, which graphs it runs, and how it is opened.
 *
 * @module
 */
import type { ModelKind } from "../config.ts";
import type { ModelFolder } from "../hub/model_folder.ts";
import type { WantedGraph } from "./graph_choice.ts";
import type { LOADERS } from "./loaders.ts";

export interface Family {
  /** Its `model_type`, if it has one. */
  readonly name: string;
  readonly kind: ModelKind;
  /** Whether a folder is of this family. */
  matches(folder: ModelFolder): boolean;
  /** Whether it takes a folder whose kind the user has named; as `matches` if absent. */
  accepts?(folder: ModelFolder): boolean;
  /** The graphs that run, the main one first. */
  graphs(folder: ModelFolder): readonly WantedGraph[];
  /** Its files beside graphs and configuration. */
  readonly files?: RegExp;
  /** What opens its models, which only the thread that owns the device imports. */
  readonly loader: keyof typeof LOADERS;
  /** Whether it speaks with embeddings of speakers. */
  readonly takesSpeakerEncoder?: boolean;
}

/** Whether the configuration names an architecture of this form. */
export function isBuiltAs({ config }: ModelFolder, form: RegExp): boolean {
  const value = config["architectures"];
  return Array.isArray(value) && value.some((name) => typeof name === "string" && form.test(name));
}

/** Whether the `model_type` is one of these. */
export function isOfType({ config }: ModelFolder, ...types: readonly string[]): boolean {
  return types.includes(String(config["model_type"] ?? ""));
}

/** Whether a folder declares a task, regardless of its architecture. */
export function isForTask({ config }: ModelFolder, task: string): boolean {
  return config["task"] === task;
}

/** Whether a folder has a graph, in any dtype. */
export function hasGraph({ files }: ModelFolder, name: string): boolean {
  return [...files].some((file) => file.startsWith(`onnx/${name}`) && file.endsWith(".onnx"));
}
