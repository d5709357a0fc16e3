/**
 * Decodes Opus packets (RFC 6716), from any container.
 *
 * @module
 */
import { countOpusSamples, OPUS_RATE_HZ } from "./opus_packet.ts";
import { ErrorBudget, invalidAudio, type Sound } from "./sound.ts";

/** The identification header (RFC 7845, section 5.1). */
interface OpusHead {
  readonly numChannels: number;
  /** Samples at 48 kHz to skip (pre-skip). */
  readonly preSkip: number;
  /** Factor on all samples. */
  readonly gain: number;
  readonly numStreams: number;
  readonly numCoupled: number;
  /** u8 `[numChannels]`: the decoded channel that each output channel is, 255 for silence. */
  readonly mapping: readonly number[];
}

const HEAD_BYTES = 19;
const MAX_CHANNELS = 8;
/** What the decoder's input buffer holds, per channel: 120 ms at 256 kbit/s. */
const MAX_PACKET_BYTES = 3840;
const PACKETS_PER_PIECE = 32;

/** @throws {HearthError} `invalid_media` when a header is invalid. */
export function parseOpusHead(data: Uint8Array): OpusHead {
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  const numChannels = data[9] ?? 0;
  if (data.length < HEAD_BYTES || numChannels < 1 || numChannels > MAX_CHANNELS) {
    throw invalidAudio(
      `The Opus header is damaged, or has ${numChannels} channels; 1 to ${MAX_CHANNELS} are wanted.`,
    );
  }
  const base = {
    numChannels,
    preSkip: view.getUint16(10, true),
    gain: 10 ** (view.getInt16(16, true) / 256 / 20),
  };
  const family = data[18];
  if (family === 0) {
    const mapping = numChannels === 1 ? [0] : [0, 1];
    if (numChannels > 2) {
      throw invalidAudio(`The Opus header has ${numChannels} channels unmapped.`);
    }
    return { ...base, numStreams: 1, numCoupled: numChannels - 1, mapping };
  }
  const numStreams = data[19] ?? 0;
  const numCoupled = data[20] ?? 0;
  const mapping = [...data.subarray(21, 21 + numChannels)];
  const isMapped = mapping.length === numChannels &&
    mapping.every((channel) => channel === 255 || channel < numStreams + numCoupled);
  if (!isMapped || numStreams < 1 || numCoupled > numStreams) {
    throw invalidAudio("The Opus header maps channels to streams that are not there.");
  }
  return { ...base, numStreams, numCoupled, mapping };
}

/**
 * Decodes packets. Invalid packets are skipped.
 *
 * @param maxSamples end of the sound, if its container gives it.
 */
export async function* decodeOpus(
  head: OpusHead,
  packets: Iterable<Uint8Array>,
  maxSamples = Infinity,
): AsyncGenerator<Sound, void> {
  const { OpusDecoder } = await import("opus-decoder");
  const { numChannels, preSkip, gain, numStreams, numCoupled, mapping } = head;
  const decoder = new OpusDecoder({
    channels: numChannels,
    preSkip,
    streamCount: numStreams,
    coupledStreamCount: numCoupled,
    channelMappingTable: [...mapping],
  });
  await decoder.ready;
  try {
    const budget = new ErrorBudget();
    let left = maxSamples;
    for (const group of groupPackets(packets, MAX_PACKET_BYTES * numChannels)) {
      const { channelData, errors } = decoder.decodeFrames(group);
      budget.spend(errors);
      const channels = channelData.map((samples) => scale(samples.subarray(0, left), gain));
      left -= channels[0]!.length;
      yield { channels, sampleRateHz: OPUS_RATE_HZ };
    }
  } finally {
    decoder.free();
  }
}

function* groupPackets(packets: Iterable<Uint8Array>, maxBytes: number): Generator<Uint8Array[]> {
  let group: Uint8Array[] = [];
  for (const packet of packets) {
    if (countOpusSamples(packet) === 0 || packet.length > maxBytes) continue;
    group.push(packet);
    if (group.length < PACKETS_PER_PIECE) continue;
    yield group;
    group = [];
  }
  yield group;
}

function scale(samples: Float32Array, factor: number): Float32Array {
  return factor === 1 ? samples : samples.map((sample) => sample * factor);
}
