/**
 * Packs a model for a runtime: a ModelProto in memory whose large constants are external data.
 *
 * @module
 */
import { basename, dirname } from "node:path";
import { StartupError } from "../../base/errors.ts";
import type { ModelFiles } from "../../graph/file/external_data.ts";
import { readRange, readStoredBytes } from "../../graph/file/stored_range.ts";
import { countStoredBytes } from "../../graph/file/tensor.ts";
import type { ExternalData } from "./ort.ts";
import { type ModelProto, type Tensor, withGraph } from "../../graph/file/proto.ts";
import { writeModel } from "../../graph/file/proto_codec.ts";

/** Constants up to this size stay in the graph, where ONNX Runtime expects sizes and axes. */
const INLINE_BYTES = 1024;
/** Alignment of tensors within a blob. */
const ALIGNMENT = 64;
const BLOB = "weights.data";

/** A model whose weights have been copied. */
interface CopiedModel {
  readonly bytes: Uint8Array;
  /** Files for the session's `externalData`. */
  readonly externalData: readonly ExternalData[];
}

/** A model that refers to its weights in their files. */
interface MappedModel {
  readonly bytes: Uint8Array;
  /** Folder of those files; `undefined` if there are none. */
  readonly weightsFolder: string | undefined;
}

function withConstants(model: ModelProto, initializers: readonly Tensor[]): Uint8Array {
  return writeModel(withGraph(model, { initializers }));
}

/** Reads all weights into one block of memory. */
export async function copyWeights(model: ModelProto, files: ModelFiles): Promise<CopiedModel> {
  const parts: { readonly tensor: Tensor; readonly offset: number }[] = [];
  let end = 0;
  const initializers = model.graph.initializers.map((tensor): Tensor => {
    const length = countStoredBytes(tensor);
    const isInline = tensor.data.kind === "memory" &&
      (length <= INLINE_BYTES || tensor.dtype === "string");
    if (isInline) return tensor;
    const offset = Math.ceil(end / ALIGNMENT) * ALIGNMENT;
    end = offset + length;
    parts.push({ tensor, offset });
    return { ...tensor, data: { kind: "file", file: BLOB, offset, length } };
  });
  if (end === 0) return { bytes: withConstants(model, initializers), externalData: [] };
  const data = new Uint8Array(end);
  for (const { tensor, offset } of parts) {
    await readRange(
      tensor,
      { files: files, offset: 0 },
      data.subarray(offset, offset + countStoredBytes(tensor)),
    );
  }
  return { bytes: withConstants(model, initializers), externalData: [{ path: BLOB, data }] };
}

/**
 * Refers to the weights in their files. All external data of a session must then be on disk, so computed constants go
 * into the graph.
 */
export async function mapWeights(model: ModelProto, files: ModelFiles): Promise<MappedModel> {
  let folder: string | undefined;
  const initializers: Tensor[] = [];
  // Looked up once per file, since a graph has hundreds of tensors.
  const known = new Map<string, { readonly path: string; readonly size: number } | undefined>();
  const find = async (file: string) => {
    if (!known.has(file)) {
      const path = await files.resolvePath?.(file);
      known.set(file, path === undefined ? path : { path, size: await files.size(file) });
    }
    return known.get(file);
  };
  for (const tensor of model.graph.initializers) {
    const { data } = tensor;
    const found = data.kind === "file" ? await find(data.file) : undefined;
    // A session can only be given one folder, but links in a cache may point to files in several.
    const isMapped = found && (folder ??= dirname(found.path)) === dirname(found.path);
    if (isMapped && data.kind === "file") {
      requireBytes(found.size, data);
      initializers.push({ ...tensor, data: { ...data, file: basename(found.path) } });
    } else {
      const bytes = await readStoredBytes(tensor, files);
      initializers.push({ ...tensor, data: { kind: "memory", bytes } });
    }
  }
  return { bytes: withConstants(model, initializers), weightsFolder: folder };
}

/** Checks a file's length. @throws {StartupError} when it ends before the bytes that a graph needs. */
function requireBytes(
  size: number,
  { file, offset, length }: {
    readonly file: string;
    readonly offset: number;
    readonly length: number;
  },
): void {
  if (offset + length <= size) return;
  throw new StartupError(
    `${file} ends at byte ${size}, but the graph needs ${length} bytes from ${offset} on; ` +
      "the download may be incomplete.",
  );
}
