/**
 * The heads of Whisper's decoder whose cross-attention aligns tokens with the audio.
 *
 * @module
 */
import type { SiteHeads } from "../../backend/cross_alignment.ts";
import { StartupError } from "../../errors.ts";
import { type Json, numberAt } from "../../hub/model_folder.ts";

/**
 * Reads `alignment_heads`, pairs of layer and head. Without them all heads of the upper half of the layers are used, as
 * in openai/whisper.
 *
 * @param files the folder's `config.json` and `generation_config.json`.
 * @throws {StartupError} when a pair names no head of the model.
 */
export function readAlignmentHeads(
  { config, generationConfig }: { readonly config: Json; readonly generationConfig: Json },
): SiteHeads[] {
  const size = (name: string) => {
    const value = numberAt(config, name);
    if (value !== undefined) return value;
    throw new StartupError(`The folder's config.json gives no ${name}.`);
  };
  const [numLayers, numHeads] = [size("decoder_layers"), size("decoder_attention_heads")];
  const pairs = generationConfig["alignment_heads"];
  if (!Array.isArray(pairs) || pairs.length === 0) {
    const heads = [...Array(numHeads).keys()];
    const layers = [...Array(numLayers).keys()].slice(Math.floor(numLayers / 2));
    return layers.map((layer) => ({ layer, heads }));
  }
  const isBelow = (value: unknown, limit: number) =>
    typeof value === "number" && Number.isInteger(value) && value >= 0 && value < limit;
  for (const pair of pairs) {
    const [layer, head] = Array.isArray(pair) ? pair : [];
    if (isBelow(layer, numLayers) && isBelow(head, numHeads)) continue;
    throw new StartupError(
      `The folder's generation_config.json has ${
        JSON.stringify(pair)
      } among its alignment_heads; the decoder has ${numLayers} layers of ${numHeads} heads, counted from 0.`,
    );
  }
  const byLayer = Map.groupBy(pairs as [number, number][], ([layer]) => layer);
  return [...byLayer].sort(([a], [b]) => a - b)
    .map(([layer, own]) => ({ layer, heads: [...new Set(own.map(([, head]) => head))] }));
}
