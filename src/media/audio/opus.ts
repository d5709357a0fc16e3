/**
 * Decodes Opus packets (RFC 6716), from whatever container they came.
 *
 * @module
 */
import { invalidAudio, type Sound } from "./sound.ts";

/** The identification header (RFC 7845, section 5.1). */
export interface OpusHead {
  readonly numChannels: number;
  /** Samples at 48 kHz that only let the decoder settle. */
  readonly preSkip: number;
  /** Factor on all samples. */
  readonly gain: number;
  readonly numStreams: number;
  readonly numCoupled: number;
  /** u8 `[numChannels]`: the decoded channel that each output channel is, 255 for silence. */
  readonly mapping: readonly number[];
}

/** Opus counts time at this rate, and is decoded at it. */
export const OPUS_RATE_HZ = 48_000;

const HEAD_BYTES = 19;
const MAX_CHANNELS = 8;
/** What the decoder's input buffer holds, per channel: 120 ms at 256 kbit/s. */
const MAX_PACKET_BYTES = 3840;
/** 120 ms, the most a packet may last. */
const MAX_PACKET_SAMPLES = 5760;
const PACKETS_PER_PIECE = 32;

/** @throws {HearthError} `invalid_media` when a header makes no sense. */
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

/** Samples at 48 kHz that a packet lasts; 0 for one that is damaged. */
export function countOpusSamples(packet: Uint8Array): number {
  if (packet.length === 0) return 0;
  const config = packet[0]! >>> 3;
  // SILK frames of 10, 20, 40 and 60 ms; hybrid ones of 10 and 20; CELT ones of 2.5, 5, 10 and 20.
  const milliseconds = config < 12
    ? [10, 20, 40, 60][config & 3]!
    : config < 16
    ? [10, 20][config & 1]!
    : [2.5, 5, 10, 20][config & 3]!;
  const code = packet[0]! & 3;
  const numFrames = code === 0 ? 1 : code < 3 ? 2 : (packet[1] ?? 0) & 63;
  const samples = milliseconds * OPUS_RATE_HZ / 1000 * numFrames;
  return samples <= MAX_PACKET_SAMPLES ? samples : 0;
}

/**
 * Decodes packets. Those that make no sense are left out.
 *
 * @param maxSamples where the sound ends, if its container says so.
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
    let left = maxSamples;
    for (const group of groupPackets(packets, MAX_PACKET_BYTES * numChannels)) {
      const { channelData } = decoder.decodeFrames(group);
      const channels = channelData.map((samples) =>
        samples.subarray(0, left).map((sample) => sample * gain)
      );
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
