/**
 * Decodes sound that arrives over a connection as samples without a header.
 *
 * @module
 */
import { joinBytes } from "../../base/join_bytes.ts";
import { expandALaw, expandMuLaw } from "./pcm.ts";

/** The coding of the samples; there is one channel. */
export interface LiveFormat {
  readonly coding: "pcm16" | "mu-law" | "A-law";
  readonly sampleRateHz: number;
}

const NOTHING = new Uint8Array(0);

/** Decodes bytes that may be cut anywhere, even within a sample. */
export class LiveDecoder {
  readonly #coding: LiveFormat["coding"];
  /** The first byte of an incomplete sample. */
  #rest = NOTHING;

  constructor({ coding }: LiveFormat) {
    this.#coding = coding;
  }

  /** @returns the samples that are complete; full scale is 2^15. */
  push(bytes: Uint8Array): Int16Array<ArrayBuffer> {
    if (this.#coding === "mu-law") return Int16Array.from(bytes, expandMuLaw);
    if (this.#coding === "A-law") return Int16Array.from(bytes, expandALaw);
    const all = joinBytes([this.#rest, bytes]);
    const numSamples = Math.floor(all.length / 2);
    this.#rest = all.slice(2 * numSamples);
    // Every machine that Deno runs on is little-endian, as the format is.
    return new Int16Array(all.buffer, 0, numSamples);
  }
}
