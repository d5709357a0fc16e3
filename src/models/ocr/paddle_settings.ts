/**
 * PaddleOCR's settings for a graph, `inference.yml`.
 *
 * @module
 */
import { join } from "node:path";
import { parse, YAMLParseError } from "yaml";
import { StartupError, startupStep } from "../../base/errors.ts";
import type { ModelFolder } from "../../hub/model_folder.ts";
import { type ChannelLevels, readChannelLevels } from "./line_graph.ts";

type Yaml = string | readonly Yaml[] | { readonly [key: string]: Yaml };

/** Levels, characters and sizes by key; empty if there is no file. */
export class PaddleSettings {
  /** Path in the folder. */
  readonly file: string | undefined;
  readonly #values: Yaml;

  private constructor(file: string | undefined, values: Yaml) {
    this.file = file;
    this.#values = values;
  }

  /**
   * @param file path in the folder.
   * @throws {StartupError} when it is not YAML.
   */
  static async read(folder: ModelFolder, file: string | undefined): Promise<PaddleSettings> {
    if (file === undefined) return new PaddleSettings(undefined, {});
    const path = join(folder.path, file);
    const values: Yaml = await startupStep(
      // Read without a schema, so that "1" and "no" in a dictionary remain text.
      async () => parseYaml(await Deno.readTextFile(path)),
      (reason) => `${path} cannot be read: ${reason}`,
    );
    return new PaddleSettings(file, values);
  }

  /**
   * The number at a path of keys.
   *
   * @throws {StartupError} when it is not a number.
   */
  number(path: readonly string[]): number | undefined {
    return this.numbers(path)?.[0];
  }

  /** Like `number`, for a list. */
  numbers(path: readonly string[]): number[] | undefined {
    const values = this.#find(path);
    if (values === undefined) return undefined;
    return [values].flat().map((value) => {
      const number = Number(value);
      if (Number.isFinite(number)) return number;
      throw new StartupError(
        `${this.file}: ${path.join(".")} wants a number, and has something else.`,
      );
    });
  }

  /** The characters of a recogniser. */
  get dictionary(): readonly string[] | undefined {
    const lines = this.#find(["character_dict"]);
    return Array.isArray(lines) ? lines.map(String) : undefined;
  }

  /** The usual levels, overridden by those in the file. */
  levels(usual: Parameters<typeof readChannelLevels>[0]): ChannelLevels {
    const mode = this.#find(["DecodeImage", "img_mode"]);
    return readChannelLevels({
      mean: this.numbers(["NormalizeImage", "mean"]) ?? usual.mean,
      std: this.numbers(["NormalizeImage", "std"]) ?? usual.std,
      isBgr: mode === undefined ? usual.isBgr : mode === "BGR",
    });
  }

  /** Finds the value at a path of keys, however deep its first key is nested. */
  #find([key, ...rest]: readonly string[], from: Yaml = this.#values): Yaml | undefined {
    if (key === undefined) return from;
    if (typeof from !== "object" || from === null) return undefined;
    if (!Array.isArray(from) && Object.hasOwn(from, key)) {
      return this.#find(rest, (from as Record<string, Yaml>)[key]!);
    }
    for (const inner of Object.values(from)) {
      const found = this.#find([key, ...rest], inner as Yaml);
      if (found !== undefined) return found;
    }
    return undefined;
  }
}

/** @throws {StartupError} without the excerpt of the file that the parser puts in its message. */
function parseYaml(text: string): Yaml {
  try {
    // Read without a schema, so that "1" and "no" in a dictionary remain text.
    return parse(text, { schema: "failsafe" });
  } catch (error) {
    // An alias without an anchor is not a parse error: it fails later.
    const [place] = error instanceof YAMLParseError ? error.linePos ?? [] : [];
    const where = place === undefined ? "" : ` (line ${place.line} column ${place.col})`;
    throw new StartupError(`it is no valid YAML${where}`);
  }
}
