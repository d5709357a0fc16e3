/**
 * A twin of onnx-community/all-MiniLM-L6-v2-ONNX: BERT's layers with random weights.
 *
 * @module
 */
import { attention, layerNorm, mlp } from "../../fixtures/graphs/graph_layers.ts";
import { copyTokenizer, TOKENIZERS, twinFolder, writeTwinFiles } from "./twin.ts";
import { TwinGraph } from "./twin_graph.ts";

const WIDTH = 384;
const INNER = 1536;
const HEADS = 12;
const LAYERS = 6;
const VOCAB = 30_522;
const POSITIONS = 512;

/** The folder, which is written if it does not exist. */
export async function miniLmFolder(): Promise<string> {
  return await twinFolder("all-minilm-l6-v2-1", async (folder) => {
    await copyTokenizer("all-MiniLM-L6-v2", folder);
    await Deno.copyFile(`${TOKENIZERS}/all-MiniLM-L6-v2/config.json`, `${folder}/config.json`);
    const type = (name: string) => `sentence_transformers.models.${name}`;
    await writeTwinFiles(folder, {
      "modules.json": [
        { idx: 0, name: "0", path: "", type: type("Transformer") },
        { idx: 1, name: "1", path: "1_Pooling", type: type("Pooling") },
        { idx: 2, name: "2", path: "2_Normalize", type: type("Normalize") },
      ],
      "1_Pooling/config.json": { word_embedding_dimension: WIDTH, pooling_mode_mean_tokens: true },
      "onnx/model.onnx": buildGraph(),
    });
  });
}

function buildGraph(): Uint8Array<ArrayBuffer> {
  const graph = new TwinGraph();
  const inputs = ["input_ids", "attention_mask", "token_type_ids"];
  const length = graph.add("Gather", [graph.add("Shape", ["input_ids"]), graph.ints([1])]);
  const all = graph.ints(Array.from({ length: POSITIONS }, (_, i) => i), [1, POSITIONS]);
  const positions = graph.add("Slice", [all, graph.ints([0]), length, graph.ints([1])]);
  const table = (rows: number, ids: string) =>
    graph.add("Gather", [graph.weights([rows, WIDTH], 0.5), ids]);
  const words = graph.add("Add", [table(VOCAB, "input_ids"), table(2, "token_type_ids")]);
  let hidden = layerNorm(graph, graph.add("Add", [words, table(POSITIONS, positions)]), WIDTH);

  const wide = graph.add("Unsqueeze", [
    graph.add("Unsqueeze", ["attention_mask", graph.ints([1])]),
    graph.ints([2]),
  ]);
  const kept = graph.add("Cast", [wide], { attributes: { to: 1 } });
  const mask = graph.add("Mul", [
    graph.add("Sub", [graph.float(1), kept]),
    graph.float(-3.4028234663852886e38),
  ]);
  const addAndNorm = (added: string) => layerNorm(graph, graph.add("Add", [added, hidden]), WIDTH);
  for (let layer = 0; layer < LAYERS; layer++) {
    hidden = addAndNorm(attention(graph, { queries: hidden, width: WIDTH, heads: HEADS, mask }));
    hidden = addAndNorm(mlp(graph, hidden, { width: WIDTH, inner: INNER }));
  }
  graph.add("Identity", [hidden], { outputs: ["last_hidden_state"] });
  return graph.build({
    inputs: inputs.map((name) => [name, "int64", ["batch_size", "sequence_length"]]),
    outputs: [["last_hidden_state", "float32", ["batch_size", "sequence_length", WIDTH]]],
  });
}
