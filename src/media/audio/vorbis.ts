/**
 * Decodes Vorbis packets, from any container.
 *
 * @module
 */
import type { OggVorbisDecodedAudio } from "@wasm-audio-decoders/ogg-vorbis";
import { joinBytes } from "../../base/join_bytes.ts";
import { makeOggPage, MAX_PAGED_BYTES } from "./ogg_pages.ts";
import type { Sound } from "./sound.ts";

const COMMENT_AT = 1;
/** An empty comment, which replaces one that may hold images. */
const EMPTY_COMMENT = Uint8Array.of(
  3,
  ...new TextEncoder().encode("vorbis"),
  ...Array(8).fill(0),
  1,
);
const PACKETS_PER_PIECE = 32;

/**
 * Decodes packets, the headers (identification, comment and setup) first. Oversized packets are skipped.
 *
 * @param maxSamples end of the sound, if its container gives it.
 */
export async function* decodeVorbis(
  packets: Iterable<Uint8Array>,
  maxSamples = Infinity,
): AsyncGenerator<Sound, void> {
  const { OggVorbisDecoder } = await import("@wasm-audio-decoders/ogg-vorbis");
  const decoder = new OggVorbisDecoder();
  await decoder.ready;
  let left = maxSamples;
  const takeSound = ({ channelData, sampleRate }: OggVorbisDecodedAudio): Sound => {
    const channels = channelData.map((samples) => samples.subarray(0, left));
    left -= channels[0]?.length ?? 0;
    return { channels, sampleRateHz: sampleRate };
  };
  try {
    for (const pages of groupPages(packets)) yield takeSound(await decoder.decode(pages));
    yield takeSound(await decoder.flush());
  } finally {
    decoder.free();
  }
}

function* groupPages(packets: Iterable<Uint8Array>): Generator<Uint8Array> {
  let pages: Uint8Array[] = [];
  let sequence = 0;
  for (const packet of packets) {
    const content = sequence === COMMENT_AT ? EMPTY_COMMENT : packet;
    if (content.length > MAX_PAGED_BYTES) continue;
    pages.push(makeOggPage(content, sequence++));
    if (pages.length < PACKETS_PER_PIECE) continue;
    yield joinBytes(pages);
    pages = [];
  }
  yield joinBytes(pages);
}
