/**
 * Chatterbox's graph of embeddings as the engine takes one: from the tokens of a step, which are of several texts.
 *
 * The graph tells text from sound by what stands before a token in its row, so that every token of a step, all of them
 * sound, gets a row of its own. What stands before the sound is embedded in one row, by {@linkcode SpeechEmbedder.embed}.
 *
 * @module
 */
import { codeOfDtype, type TensorType } from "../../graph/file/dtype.ts";
import { type GraphSession, Tensor, type Tensors } from "../../device/ort/ort.ts";
import { int64Tensor, makeNode, type ModelProto } from "../../graph/file/proto.ts";
import { makeValueInfo } from "../../graph/file/proto_write.ts";
import { EMBEDDING, type GraphContext, readGraph } from "../folder/graph_file.ts";
import { requireKnownInputs } from "../folder/graph_ports.ts";
import { tensorFor } from "../plain_tensor.ts";

const EMBEDS = "inputs_embeds";
const IDS = "input_ids";
const POSITIONS = "position_ids";
const EXAGGERATION = "exaggeration";
/** The model's exaggeration parameter, 0 to 1; its default. */
const DEFAULT_EXAGGERATION = 0.5;
/** The start-of-speech token; text tokens come before it in the vocabulary, further control tokens after it. */
const START_OF_SPEECH = 6_561;

export class SpeechEmbedder {
  readonly #session: GraphSession;

  private constructor(session: GraphSession) {
    this.#session = session;
  }

  /**
   * Opens `embed_tokens`.
   *
   * @param dtype of the embeddings that the decoder takes.
   * @throws {StartupError} when the folder lacks the graph, or it wants inputs that are not known.
   */
  static async open(context: GraphContext, dtype: TensorType): Promise<SpeechEmbedder> {
    await using graph = await readGraph(context, EMBEDDING);
    const session = await context.backend.openModel(pack(graph.model, dtype), graph.files);
    requireKnownInputs(session, {
      isKnown: (name) => [IDS, POSITIONS, EXAGGERATION].includes(name),
      of: graph.path,
    });
    return new SpeechEmbedder(session);
  }

  /** The same graph for the tokens of a step, each in a row of its own. */
  get ofStep(): GraphSession {
    const { inputs, outputs } = this.#session;
    return {
      inputs,
      outputs,
      run: (feeds, fetches) => {
        const rows = Object.entries(feeds).map(([name, tensor]) => [
          name,
          tensor.reshape([tensor.size, 1]),
        ]);
        return this.#run(Object.fromEntries(rows), fetches);
      },
      release: () => this.#session.release(),
    };
  }

  /** The type of what it gives. */
  get dtype(): GraphSession["outputs"][number]["type"] {
    return this.#session.outputs[0]!.type;
  }

  /**
   * Embeds a text's tokens, with the signs around it, the sound's beginning among them.
   *
   * @returns `[1, tokens, width]`, on the device; the caller's.
   */
  async embed(tokens: readonly number[]): Promise<Tensor> {
    const asRow = (values: readonly number[]) =>
      new Tensor("int64", BigInt64Array.from(values, BigInt), [1, values.length]);
    const feeds = { [IDS]: asRow(tokens), [POSITIONS]: asRow(makePositions(tokens)) };
    return (await this.#run(feeds))[EMBEDS]!;
  }

  /** Runs rows of tokens, all with one exaggeration; the graph takes what it has inputs for. */
  #run(feeds: Tensors, fetches?: Parameters<GraphSession["run"]>[1]): Promise<Tensors> {
    const numRows = feeds[IDS]!.dims[0]!;
    const taken = this.#session.inputs.map((input) => [
      input.name,
      input.name === EXAGGERATION
        ? tensorFor(input, new Array(numRows).fill(DEFAULT_EXAGGERATION), [numRows])
        : feeds[input.name]!,
    ]);
    return this.#session.run(Object.fromEntries(taken), fetches);
  }
}

/** Positions in the text; those of speech tokens start again. */
function makePositions(tokens: readonly number[]): number[] {
  let position = 0;
  return tokens.map((token) => token >= START_OF_SPEECH ? 0 : position++);
}

/** Makes of the graph's output `[1, tokens, width]` in a dtype, whatever rows the tokens are in. */
function pack(model: ModelProto, dtype: TensorType): ModelProto {
  const { graph } = model;
  const width = graph.outputs.find(({ name }) => name === EMBEDS)?.shape?.at(-1) ?? "width";
  const [own, cast] = ["hearth_embeds", "hearth_cast"];
  const renamed = (name: string) => name === EMBEDS ? own : name;
  return {
    ...model,
    graph: {
      ...graph,
      nodes: [
        ...graph.nodes.map((node) => ({
          ...node,
          inputs: node.inputs.map(renamed),
          outputs: node.outputs.map(renamed),
        })),
        makeNode("Cast", [own], [cast], { attributes: { to: codeOfDtype(dtype) } }),
        makeNode("Reshape", [cast, "hearth_packed"], [EMBEDS]),
      ],
      // Nothing is said of the width: it stays.
      initializers: [...graph.initializers, int64Tensor("hearth_packed", [3], [1, -1, 0])],
      outputs: [makeValueInfo(EMBEDS, dtype, [1, "tokens", width])],
    },
  };
}
