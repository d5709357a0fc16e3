/**
 * Small decoders for tests of the cut: embedding, layers of norm, attention and a product, projection.
 * Each test writes the attention in its own operators.
 *
 * @module
 */
import type { ModelFiles } from "../../../src/graph/file/external_data.ts";
import { GraphBuilder } from "../../fixtures/graphs/graph_builder.ts";
import { buildModel, type Declared } from "../../fixtures/graphs/onnx_builder.ts";
import { type StateLayer, statePorts } from "./state_layers.ts";

/** Sizes of a test decoder. */
export interface DecoderSizes {
  readonly layers: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  /** Size of a head of keys, if it differs from that of values. */
  readonly keyDim?: number;
  readonly hidden: number;
  readonly vocab: number;
}

/** Default sizes of tests. */
export const SIZES: DecoderSizes = {
  layers: 2,
  heads: 4,
  kvHeads: 2,
  headDim: 16,
  hidden: 24,
  vocab: 29,
};

/** A decoder under construction. */
export class DecoderBuilder extends GraphBuilder {
  readonly sizes: DecoderSizes;

  constructor(
    sizes: DecoderSizes,
    external: Pick<DecoderOptions, "externalFile" | "externalOffset"> = {},
  ) {
    super(external);
    this.sizes = sizes;
  }
}

/** A layer of the graph under construction. */
export interface Layer {
  readonly index: number;
  /** `[1, tokens, hidden]`. */
  readonly input: string;
  readonly pastKey: string;
  readonly pastValue: string;
  readonly presentKey: string;
  readonly presentValue: string;
}

/** Adds an attention over the layer's input; returns `[1, tokens, heads * headDim]`. */
export type AddAttention = (graph: DecoderBuilder, layer: Layer) => string;

/** Options that change the plain test decoder. */
export interface DecoderOptions {
  readonly sizes?: Partial<DecoderSizes>;
  readonly opset?: number;
  readonly embeddings?: boolean;
  /** The type of past and present keys and values; the graph computes in float32. */
  readonly cacheDtype?: "float32" | "float16" | "int8";
  /** Whether caches have heads on the axis of the batch, and keys their elements before tokens. */
  readonly hasMergedCaches?: boolean;
  /** Computes what is added to the rows after an attention; a product and its `tanh` by default. */
  readonly feedForward?: (graph: DecoderBuilder, rows: string) => string;
  /** Layers with states, each before the attention of the same index. */
  readonly states?: readonly StateLayer[];
  /** Inputs besides tokens and caches; the mask by default. */
  readonly inputs?: readonly Declared[];
  /** Adds nodes once, before the layers. */
  readonly prepare?: (graph: DecoderBuilder) => void;
  /** Name of a file for the weights, which are declared but not created. */
  readonly externalFile?: string;
  /** Offset of the weights in that file. */
  readonly externalOffset?: number;
  /** The embeddings of `input_ids`; rows of a table by default. */
  readonly embed?: (graph: DecoderBuilder) => string;
  /** Projects the last hidden state to the logits; a product by default. */
  readonly project?: (graph: DecoderBuilder, hidden: string) => void;
  /** Name of an output with the last hidden state, instead of the logits. */
  readonly hiddenOutput?: string;
}

/** The usual mask input. */
export const MASK: Declared = ["attention_mask", "int64", ["batch_size", "total_sequence_length"]];
/** The usual positions input. */
export const POSITIONS: Declared = ["position_ids", "int64", ["batch_size", "sequence_length"]];

/** Builds a decoder with this attention in every layer. Without an attention, its layers only have states. */
export function decoder(
  attention: AddAttention | undefined,
  options: DecoderOptions = {},
): Uint8Array<ArrayBuffer> {
  const sizes = { ...SIZES, ...options.sizes };
  const { layers, heads, kvHeads, headDim, hidden: width, vocab } = sizes;
  const graph = new DecoderBuilder(sizes, options);
  options.prepare?.(graph);
  const embed = options.embed ??
    ((graph) => graph.add("Gather", [graph.weights([vocab, width], 1), "input_ids"]));
  let hidden = options.embeddings ? "inputs_embeds" : embed(graph);
  const inputs: Declared[] = [
    options.embeddings
      ? ["inputs_embeds", "float32", ["batch_size", "sequence_length", width]]
      : ["input_ids", "int64", ["batch_size", "sequence_length"]],
    ...(options.inputs ?? [MASK]),
  ];
  const { hiddenOutput } = options;
  const outputs: Declared[] = [[
    hiddenOutput ?? "logits",
    "float32",
    ["batch_size", "sequence_length", hiddenOutput === undefined ? vocab : width],
  ]];
  for (let index = 0; index < layers; index++) {
    const state = options.states?.[index];
    if (state !== undefined) {
      const ports = statePorts(state);
      inputs.push(...ports.inputs);
      outputs.push(...ports.outputs);
      const normed = graph.add("LayerNormalization", [hidden, graph.ones(width)], {
        attributes: { axis: -1 },
      });
      hidden = graph.add("Add", [hidden, state.add(graph, normed)]);
    }
    if (attention !== undefined) {
      const cache = (kind: string, length: string): Declared => {
        const isKey = kind.endsWith("key");
        const size = isKey ? sizes.keyDim ?? headDim : headDim;
        const merged = "batch_size_x_num_heads";
        const shape = options.hasMergedCaches
          ? isKey ? [merged, size, length] : [merged, length, size]
          : ["batch_size", kvHeads, length, size];
        return [kind, options.cacheDtype ?? "float32", shape];
      };
      const layer: Layer = {
        index,
        input: graph.add("LayerNormalization", [
          hidden,
          graph.weights([width]),
          graph.weights([width]),
        ], {
          attributes: { axis: -1 },
        }),
        pastKey: `past_key_values.${index}.key`,
        pastValue: `past_key_values.${index}.value`,
        presentKey: `present.${index}.key`,
        presentValue: `present.${index}.value`,
      };
      inputs.push(cache(layer.pastKey, "past_length"), cache(layer.pastValue, "past_length"));
      outputs.push(
        cache(layer.presentKey, "total_length"),
        cache(layer.presentValue, "total_length"),
      );
      const attended = attention(graph, layer);
      const projected = graph.add("MatMul", [attended, graph.weights([heads * headDim, width])]);
      hidden = graph.add("Add", [hidden, projected]);
    }
    const feedForward = options.feedForward ??
      ((graph, rows) =>
        graph.add("Tanh", [graph.add("MatMul", [rows, graph.weights([width, width])])]));
    hidden = graph.add("Add", [hidden, feedForward(graph, hidden)]);
  }
  const project = options.project ??
    ((graph, hidden) =>
      graph.add("MatMul", [hidden, graph.weights([width, vocab])], { outputs: ["logits"] }));
  if (hiddenOutput === undefined) project(graph, hidden);
  else graph.add("Identity", [hidden], { outputs: [hiddenOutput] });
  return buildModel({
    nodes: graph.nodes,
    inputs,
    outputs,
    initializers: graph.initializers,
    opset: options.opset ?? 17,
  });
}

/** Adds the three projections of a layer: `[1, tokens, heads * headDim]` each, k and v with fewer heads. */
export function projections(graph: DecoderBuilder, { input }: Layer): [string, string, string] {
  const { hidden, heads, kvHeads, headDim } = graph.sizes;
  const project = (count: number) =>
    graph.add("MatMul", [input, graph.weights([hidden, count * headDim])]);
  return [project(heads), project(kvHeads), project(kvHeads)];
}

/**
 * Adds the values that ONNX Runtime's builder computes from the mask for GroupQueryAttention: seqlens_k and the total.
 */
export function lengths(graph: DecoderBuilder): [string, string] {
  const name = "seqlens_k";
  if (!graph.nodes.some(({ outputs }) => outputs.includes(name))) {
    const sum = graph.add("ReduceSum", ["attention_mask", graph.ints([1])], {
      attributes: { keepdims: 0 },
    });
    const last = graph.add("Sub", [sum, graph.ints([1])]);
    graph.add("Cast", [last], { attributes: { to: 6 }, outputs: [name] });
    const total = graph.add("Gather", [
      graph.add("Shape", ["attention_mask"]),
      graph.ints([1], []),
    ]);
    graph.add("Cast", [total], { attributes: { to: 6 }, outputs: ["total_length"] });
  }
  return [name, "total_length"];
}

/** Makes files of a model in memory; every name means the same bytes. */
export function inMemory(bytes: Uint8Array): ModelFiles {
  return {
    size: () => Promise.resolve(bytes.length),
    read: (_file, offset, into) => {
      into.set(bytes.subarray(offset, offset + into.length));
      return Promise.resolve();
    },
  };
}
