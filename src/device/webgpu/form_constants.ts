/**
 * Constants that attentions read in the forms that compiled segments leave them.
 *
 * @module
 */
import type { SiteForm } from "../../program/program.ts";
import type { StoredTensor } from "../../graph/file/stored_tensor.ts";
import type { FormConstants } from "../paged_attention.ts";

/** Reads what these forms need, by layer; layers that share a table of angles get one array. */
export async function readConstants(
  forms: readonly SiteForm[],
  readFloats: (tensor: StoredTensor) => Promise<Float32Array>,
): Promise<Map<number, FormConstants>> {
  const constants = new Map<number, FormConstants>();
  const angles = new Map<string, Promise<Float32Array>>();
  const readAngles = (tensor: StoredTensor) => {
    const values = angles.get(tensor.name) ?? readFloats(tensor);
    angles.set(tensor.name, values);
    return values;
  };
  for (const { layer, norms, rotary } of forms) {
    if (constants.has(layer)) continue;
    const [q, k] = await Promise.all(
      [norms?.q, norms?.k].map((tensor) => tensor && readFloats(tensor)),
    );
    const gammas = norms && new Float32Array(norms.sizes[0] + norms.sizes[1]);
    if (q) gammas!.set(q);
    if (k) gammas!.set(k, norms!.sizes[0]);
    constants.set(layer, {
      gammas,
      angles: rotary && { cos: await readAngles(rotary.cos), sin: await readAngles(rotary.sin) },
    });
  }
  return constants;
}
