/**
 * Writes an ONNX model of one node, to time a single operator of ONNX Runtime.
 *
 * @module
 */

/** Element types of ONNX `TensorProto.DataType`. */
const ELEM_TYPES = { f32: 1, i32: 6, f16: 10 } as const;

/** A graph input or output; a dimension given by name may have any size. */
export interface ValueInfo {
  readonly name: string;
  readonly elem: keyof typeof ELEM_TYPES;
  readonly dims: readonly (string | number)[];
}

/** The node and the values around it; an input named `""` is absent. */
export interface OneNode {
  readonly opType: string;
  readonly domain: string;
  readonly inputs: readonly (ValueInfo | "")[];
  readonly outputs: readonly ValueInfo[];
  /** Values are integers if the key is `int`, else floats. */
  readonly attributes: Readonly<Record<string, { int: number } | { float: number }>>;
}

type Field = number[];
const utf8 = new TextEncoder();

function varint(value: number): number[] {
  const bytes = [];
  for (; value > 127; value = Math.floor(value / 128)) bytes.push(value % 128 | 128);
  return [...bytes, value];
}

const int = (field: number, value: number): Field => [...varint(field * 8), ...varint(value)];
const message = (field: number, ...parts: Field[]): Field => {
  const body = parts.flat();
  return [...varint(field * 8 + 2), ...varint(body.length), ...body];
};
const string = (field: number, value: string): Field => message(field, [...utf8.encode(value)]);
const float = (field: number, value: number): Field => [
  ...varint(field * 8 + 5),
  ...new Uint8Array(Float32Array.of(value).buffer),
];

function valueInfo(field: number, { name, elem, dims }: ValueInfo): Field {
  const shape = dims.map((dim) =>
    message(1, typeof dim === "number" ? int(1, dim) : string(2, dim))
  );
  const tensor = message(1, int(1, ELEM_TYPES[elem]), message(2, ...shape));
  return message(field, string(1, name), message(2, tensor));
}

/** The bytes of a ModelProto of opset 21 and com.microsoft 1. */
export function writeOneNodeModel(node: OneNode): Uint8Array {
  const attributes = Object.entries(node.attributes).map(([name, value]) =>
    "int" in value
      ? message(5, string(1, name), int(3, value.int), int(20, 2))
      : message(5, string(1, name), float(2, value.float), int(20, 1))
  );
  const graph = message(
    7,
    message(
      1,
      ...node.inputs.map((input) => string(1, input === "" ? "" : input.name)),
      ...node.outputs.map((output) => string(2, output.name)),
      string(4, node.opType),
      ...attributes,
      string(7, node.domain),
    ),
    string(2, node.opType),
    ...node.inputs.filter((input) => input !== "").map((input) => valueInfo(11, input)),
    ...node.outputs.map((output) => valueInfo(12, output)),
  );
  const opsets = [["", 21], ["com.microsoft", 1]] as const;
  const imports = opsets.map(([domain, version]) => message(8, string(1, domain), int(2, version)));
  return Uint8Array.from([...int(1, 10), ...imports.flat(), ...graph]);
}
