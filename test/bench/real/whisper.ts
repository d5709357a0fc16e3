/**
 * A twin of onnx-community/whisper-base: an encoder, and a decoder merged as by Optimum, with random weights and a
 * known answer. The decoder's norms come after its blocks, not before them as in Whisper; the amount of work is the
 * same.
 *
 * @module
 */
import { join } from "node:path";
import { encoderLayer, gelu, layerNorm } from "../../fixtures/graphs/graph_layers.ts";
import { buildMergedDecoder } from "../../fixtures/graphs/merged_decoder_graph.ts";
import { copyTokenizer, TOKENIZERS, twinFolder, writeTwinFiles } from "./twin.ts";
import { TwinGraph } from "./twin_graph.ts";

const WIDTH = 512;
const INNER = 2048;
const HEADS = 8;
const LAYERS = 6;
const VOCAB = 51_865;
const MEL_BINS = 80;
const FRAMES = 3000;
const POSITIONS = 448;
const END = 50_257;
const FIRST_TIMESTAMP = 50_364;
const NO_TIMESTAMPS = 50_363;
/** The start token, the language, the task, and either "no timestamps" or the first timestamp. */
const PROMPT_TOKENS = 4;
/** About as many words as are spoken in 30 seconds. */
const NUM_WORDS = 80;

/** The folder, which is written if it does not exist. */
export async function whisperFolder(): Promise<string> {
  return await twinFolder("whisper-base-1", async (folder) => {
    const tiny = join(TOKENIZERS, "whisper-tiny");
    const read = async (name: string) => JSON.parse(await Deno.readTextFile(join(tiny, name)));
    await copyTokenizer("whisper-tiny", folder);
    const { model } = await read("tokenizer.json");
    const words = Object.entries<number>(model.vocab)
      .filter(([token]) => /^Ġ[a-z]{4,8}$/.test(token)).map(([, id]) => id);
    const script = [
      ...new Array(PROMPT_TOKENS - 1).fill(FIRST_TIMESTAMP),
      ...Array.from({ length: NUM_WORDS }, (_, i) => words[i * 37 % words.length]!),
      END,
    ];
    await writeTwinFiles(folder, {
      "config.json": {
        ...await read("config.json"),
        _name_or_path: "twin of openai/whisper-base",
        d_model: WIDTH,
        encoder_layers: LAYERS,
        decoder_layers: LAYERS,
        num_hidden_layers: LAYERS,
        encoder_attention_heads: HEADS,
        decoder_attention_heads: HEADS,
        encoder_ffn_dim: INNER,
        decoder_ffn_dim: INNER,
      },
      "generation_config.json": {
        ...await read("generation_config.json"),
        no_timestamps_token_id: NO_TIMESTAMPS,
        alignment_heads: [[3, 1], [4, 2], [4, 3], [4, 7], [5, 1], [5, 2], [5, 4], [5, 6]],
      },
      "onnx/encoder_model.onnx": buildEncoder(),
      "onnx/decoder_model_merged.onnx": buildMergedDecoder({
        layers: LAYERS,
        heads: HEADS,
        width: WIDTH,
        inner: INNER,
        vocab: VOCAB,
        positions: POSITIONS,
        seed: 5,
        takesEmbeddings: false,
        script,
      }),
    });
  });
}

function buildEncoder(): Uint8Array<ArrayBuffer> {
  const graph = new TwinGraph();
  const conv = (input: string, from: number, stride: number) => {
    const kernel = graph.weights([WIDTH, from, 3], 1.7 / Math.sqrt(3 * from));
    const sum = graph.add("Conv", [input, kernel, graph.weights([WIDTH], 0.1)], {
      attributes: { kernel_shape: [3], pads: [1, 1], strides: [stride] },
    });
    return gelu(graph, sum);
  };
  const features = conv(conv("input_features", MEL_BINS, 1), WIDTH, 2);
  const frames = graph.add("Transpose", [features], { attributes: { perm: [0, 2, 1] } });
  let hidden = graph.add("Add", [frames, graph.weights([FRAMES / 2, WIDTH], 1)]);
  for (let layer = 0; layer < LAYERS; layer++) {
    hidden = encoderLayer(graph, { queries: hidden, width: WIDTH, heads: HEADS, inner: INNER });
  }
  graph.add("Identity", [layerNorm(graph, hidden, WIDTH)], { outputs: ["last_hidden_state"] });
  return graph.build({
    inputs: [["input_features", "float32", ["batch_size", MEL_BINS, FRAMES]]],
    outputs: [["last_hidden_state", "float32", ["batch_size", FRAMES / 2, WIDTH]]],
  });
}
