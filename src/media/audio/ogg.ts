/**
 * Reads Ogg files: Opus (RFC 7845), Vorbis and FLAC; also files with several recordings one after another.
 *
 * @module
 */
import { decodeFlac } from "./flac.ts";
import {
  makeOggPage,
  MAX_PAGED_BYTES,
  type OggPacket,
  type OggPage,
  readOggPackets,
  readOggPages,
} from "./ogg_pages.ts";
import { countOpusSamples, decodeOpus, parseOpusHead } from "./opus.ts";
import { type Decoding, type Sound, UnreadSoundError } from "./sound.ts";
import { hasText } from "../file_bytes.ts";
import type { OggVorbisDecodedAudio } from "@wasm-audio-decoders/ogg-vorbis";
import { joinBytes } from "../../base/bytes.ts";

const COMMENT_AT = 1;
/** An empty comment header. It replaces the file's own, which may hold images. */
const EMPTY_COMMENT = Uint8Array.of(
  3,
  ...new TextEncoder().encode("vorbis"),
  ...Array(8).fill(0),
  1,
);
const PACKETS_PER_CHUNK = 32;

/**
 * Decodes packets. The headers come first: identification, comment and setup. Oversized packets are skipped.
 *
 * @param maxSamples end of the sound, if the container gives it.
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
    if (pages.length < PACKETS_PER_CHUNK) continue;
    yield joinBytes(pages);
    pages = [];
  }
  yield joinBytes(pages);
}

/** The functions that read a stream's pages, by the first bytes of the stream. */
const CODECS: Readonly<
  Record<string, (pages: readonly OggPage[], decoding: Decoding) => AsyncGenerator<Sound, void>>
> = {
  "OpusHead": readOpus,
  "\x01vorbis": readVorbis,
  "\x7fFLAC": readFlac,
};
/** The signature of a codec that is not supported. */
const SPEEX = "Speex   ";
/** The headers of Opus: identification and comment. */
const NUM_OPUS_HEADERS = 2;
/** The headers of Vorbis: identification, comment and setup. */
const NUM_VORBIS_HEADERS = 3;
/** Offset in an identification header of the byte with the exponents of the two block lengths, short and long. */
const VORBIS_BLOCKS_AT = 28;
/** Bytes from a FLAC stream's first packet to the FLAC signature in it. */
const FLAC_MAPPING_BYTES = 9;
const FLAC_FRAME_BYTE = 0xff;

/**
 * Decodes an Ogg file. If several recordings play at the same time, decodes the first supported one.
 *
 * @throws {HearthError} `invalid_media` when it holds no sound that can be decoded.
 */
export async function* readOgg(
  file: Uint8Array<ArrayBuffer>,
  decoding: Decoding,
): AsyncGenerator<Sound, void> {
  let isKnown = false;
  let isSpeex = false;
  for (const link of splitLinks(readOggPages(file))) {
    for (const first of link.filter(({ isFirst }) => isFirst)) {
      isSpeex ||= hasText(first.body, 0, SPEEX);
      const read = findCodec(first.body);
      if (read === undefined) continue;
      isKnown = true;
      const pages = link.filter(({ serial }) => serial === first.serial);
      yield* read(pages, decoding);
      if (!pages.at(-1)!.isLast) decoding.onTruncated("its last page is missing");
      break;
    }
  }
  if (!isKnown) {
    throw new UnreadSoundError(
      isSpeex
        ? "The Ogg file's sound is Speex; Opus, Vorbis or FLAC is expected."
        : "The Ogg file holds no Opus, Vorbis or FLAC, or the file's beginning is damaged.",
    );
  }
}

/**
 * Splits pages into recordings that play one after the other. In each, the first pages of all streams come before any
 * others.
 */
function* splitLinks(pages: Iterable<OggPage>): Generator<OggPage[]> {
  let link: OggPage[] = [];
  for (const page of pages) {
    if (page.isFirst && link.at(-1)?.isFirst === false) {
      yield link;
      link = [];
    }
    link.push(page);
  }
  yield link;
}

function findCodec(body: Uint8Array) {
  return Object.entries(CODECS).find(([magic]) => hasText(body, 0, magic))?.[1];
}

/**
 * Yields the packets after the first `numHeaders`. They are not collected into a list: hours of sound are millions of
 * packets.
 */
function* readPackets(pages: readonly OggPage[], numHeaders: number): Generator<OggPacket> {
  let index = 0;
  for (const packet of readOggPackets(pages)) {
    if (index++ >= numHeaders) yield packet;
  }
}

function* readData(packets: Iterable<OggPacket>): Generator<Uint8Array> {
  for (const { data } of packets) yield data;
}

async function* readOpus(pages: readonly OggPage[]): AsyncGenerator<Sound, void> {
  const head = parseOpusHead(pages[0]!.body);
  const [first, packets] = readFirstPage(pages, NUM_OPUS_HEADERS);
  const numFirst = packets.reduce(
    (sum, packet) => sum + countOpusSamples(packet, head.numStreams),
    0,
  );
  const length = findLength(pages, first, numFirst) ?? Infinity;
  const soundPackets = readData(readPackets(pages, NUM_OPUS_HEADERS));
  yield* decodeOpus(head, soundPackets, Math.max(0, length - head.preSkip));
}

async function* readVorbis(pages: readonly OggPage[]): AsyncGenerator<Sound, void> {
  const [first, packets] = readFirstPage(pages, NUM_VORBIS_HEADERS);
  const headers = [...readData(readPackets(pages, 0).take(NUM_VORBIS_HEADERS))];
  // The duration of a Vorbis packet depends on the setup and on the previous packet.
  let numFirst = 0;
  for await (const { channels } of decodeVorbis([...headers, ...packets])) {
    numFirst += channels[0]?.length ?? 0;
  }
  const length = findLength(pages, first, numFirst);
  // The length normally ends within the last packet. If it ends before that packet, the beginning of the stream was cut
  // off, and the positions begin before 0.
  const isCut = length !== undefined && numFirst - length > readMaxPacketSamples(headers[0]!);
  const isPage = pages.findLast(({ granule }) => granule >= 0) === first;
  yield* decodeVorbis(readData(readPackets(pages, 0)), isCut && isPage ? numFirst : length);
}

/** Reads the maximum number of samples that a packet adds from the identification header: half the longer block. */
function readMaxPacketSamples(head: Uint8Array): number {
  return 2 ** (head[VORBIS_BLOCKS_AT]! >> 4) / 2;
}

/** The first page on which packets of sound end, and those packets. */
function readFirstPage(
  pages: readonly OggPage[],
  numHeaders: number,
): [page: OggPage | undefined, packets: Uint8Array[]] {
  let first: OggPage | undefined;
  const packets: Uint8Array[] = [];
  for (const { data, page } of readPackets(pages, numHeaders)) {
    first ??= page;
    if (page !== first) break;
    packets.push(data);
  }
  return [first, packets];
}

/**
 * Number of samples in a stream, from the granule positions: the last one gives the end of the sound. `undefined` if
 * the last page is missing or precedes the first.
 *
 * @param numFirst samples in the packets that end on the first page.
 */
function findLength(
  pages: readonly OggPage[],
  first: OggPage | undefined,
  numFirst: number,
): number | undefined {
  const last = pages.findLast(({ granule }) => granule >= 0);
  if (first === undefined || !last?.isLast) return undefined;
  // In a section cut out of a longer stream, positions may begin anywhere, even before 0. A single page is taken to
  // begin at 0 or later.
  const start = first.granule - numFirst;
  const length = last.granule - (first === last ? Math.max(0, start) : start);
  return length > 0 ? length : undefined;
}

async function* readFlac(
  pages: readonly OggPage[],
  decoding: Decoding,
): AsyncGenerator<Sound, void> {
  const setup = pages[0]!.body.subarray(FLAC_MAPPING_BYTES);
  yield* decodeFlac(setup, listFlacFrames(pages), { ...decoding, isCut: !pages.at(-1)!.isLast });
}

function* listFlacFrames(pages: readonly OggPage[]): Generator<Uint8Array> {
  for (const { data } of readPackets(pages, 1)) {
    // A packet that does not begin with a frame is more metadata.
    if (data[0] === FLAC_FRAME_BYTE) yield data;
  }
}
