/**
 * Reads Ogg files: Opus (RFC 7845), Vorbis and FLAC, also several recordings one after the other.
 *
 * @module
 */
import { decodeFlac } from "./flac.ts";
import { type OggPacket, type OggPage, readOggPackets, readOggPages } from "./ogg_pages.ts";
import { decodeOpus, parseOpusHead } from "./opus.ts";
import { countOpusSamples } from "./opus_packet.ts";
import { invalidAudio, type Sound } from "./sound.ts";
import { decodeVorbis } from "./vorbis.ts";

/** What a stream's first packet begins with, and how the stream is read. */
const CODECS: Readonly<
  Record<string, (packets: readonly OggPacket[]) => AsyncGenerator<Sound, void>>
> = {
  "OpusHead": readOpus,
  "\x01vorbis": readVorbis,
  "\x7fFLAC": readFlac,
};
/** The identification and the comment. */
const NUM_OPUS_HEADERS = 2;
/** From a FLAC stream's first packet to the FLAC signature in it. */
const FLAC_MAPPING_BYTES = 9;
const FLAC_FRAME_BYTE = 0xff;

/**
 * Decodes an Ogg file; of recordings that play at the same time, the first.
 *
 * @throws {HearthError} `invalid_media` when it holds no sound that can be decoded.
 */
export async function* readOgg(file: Uint8Array<ArrayBuffer>): AsyncGenerator<Sound, void> {
  let isKnown = false;
  for (const link of splitLinks(readOggPages(file))) {
    for (const first of link.filter(({ isFirst }) => isFirst)) {
      const read = findCodec(first.body);
      if (read === undefined) continue;
      isKnown = true;
      yield* read([...readOggPackets(link.filter(({ serial }) => serial === first.serial))]);
      break;
    }
  }
  if (!isKnown) {
    throw invalidAudio(
      "The Ogg file holds no Opus, Vorbis or FLAC, or the beginning of it is damaged.",
    );
  }
}

/** Recordings that play one after the other. The first pages of each come before all its others. */
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
  const beginning = String.fromCharCode(...body.subarray(0, 8));
  return Object.entries(CODECS).find(([magic]) => beginning.startsWith(magic))?.[1];
}

function* dataOf(packets: readonly OggPacket[]): Generator<Uint8Array> {
  for (const { data } of packets) yield data;
}

async function* readOpus(packets: readonly OggPacket[]): AsyncGenerator<Sound, void> {
  const head = parseOpusHead(packets[0]?.data ?? new Uint8Array());
  const audio = packets.slice(NUM_OPUS_HEADERS);
  const last = lastPage(audio);
  if (last === undefined) return yield* decodeOpus(head, dataOf(audio));
  const first = audio[0]!.page;
  const numInFirst = audio.filter(({ page }) => page === first)
    .reduce((sum, { data }) => sum + countOpusSamples(data), 0);
  // A recording that was cut out of a stream does not begin at 0.
  const played = last.granule - Math.max(0, first.granule - numInFirst);
  yield* decodeOpus(head, dataOf(audio), played - head.preSkip);
}

async function* readVorbis(packets: readonly OggPacket[]): AsyncGenerator<Sound, void> {
  yield* decodeVorbis(dataOf(packets), lastPage(packets)?.granule);
}

/** The page whose position tells where in the last packet the sound ends. */
function lastPage(packets: readonly OggPacket[]): OggPage | undefined {
  const page = packets.findLast(({ page }) => page.granule >= 0)?.page;
  return page?.isLast ? page : undefined;
}

async function* readFlac(packets: readonly OggPacket[]): AsyncGenerator<Sound, void> {
  const [first, ...rest] = packets.map(({ data }) => data);
  const frames = rest.filter(([byte]) => byte === FLAC_FRAME_BYTE);
  yield* decodeFlac(first?.subarray(FLAC_MAPPING_BYTES) ?? new Uint8Array(), frames);
}
