/**
 * The kinds of load: each scenario tries to keep a server from serving other clients.
 *
 * @module
 */
import { head, HEAVY, type Hostile, LIGHT, pause, post, raw, type Target } from "./hostile.ts";
import { longRecording, plainImages } from "./large_media.ts";
import { type LoadKind, type SmallRequest, smallRequest } from "./small_requests.ts";
import { Tally, time } from "./tally.ts";

const encoder = new TextEncoder();
const MIB = 1024 * 1024;
/** Concurrent sequences of requests. */
const CONCURRENCY = 8;
const FEW = 4;
/** The first index of these requests. It is large, so that their media differ from those of the timed requests. */
const FIRST_OF_MANY = 1_000_000;
/** One of this many requests is a heavy one. */
const HEAVY_EVERY = 100;
const NUM_IDLE = 300;
const IDLE_MS = 3_000;
const NUM_LARGE_BODIES = 12;
const LARGE_BODY_BYTES = 95 * MIB;
const NUM_FLOODS = 12;
const FLOOD_MS = 5_000;
/** Concurrent connections, when they are opened as fast as possible. */
const NUM_OPENING = 64;
const NUM_SLOW = 10;
/** Bytes per second: slower than any honest client. */
const SLOW_BYTES = 1024;
/** More than the 64 KiB up to which a body may be arbitrarily slow. */
const SLOW_HEAD_BYTES = 128 * 1024;
const STATUS_LINE = "HTTP/1.1 408";
const NUM_IMAGES = 24;
const LARGE_SIDE = 8_000;
const NUM_RECORDINGS = 4;

/** Kinds of models that accept images. */
export const IMAGE_KINDS: readonly LoadKind[] = ["vision", "ocr", "matting"];

/** Options of a scenario. */
export interface ScenarioOptions {
  readonly kind: LoadKind;
  /** For the scenarios that send a number of requests, rather than for some seconds. */
  readonly numRequests: number;
}

type Tallies = Record<string, Tally>;

/** One scenario. */
export interface Scenario {
  /** Kinds of models to which the scenario applies; all if absent. */
  readonly kinds?: readonly LoadKind[];
  /** Whether the scenario only runs if `--scenario` names it. */
  readonly isExtra?: boolean;
  run(target: Target, options: ScenarioOptions): Promise<Tallies>;
}

/** Scenarios by name, in the order of their runs. */
export const SCENARIOS: Readonly<Record<string, Scenario>> = {
  "small requests": { isExtra: true, run: sendSmall },
  "malformed and oversized": { run: sendMixed },
  "300 idle connections": { run: (target) => together(NUM_IDLE, idle, target) },
  "12 bodies of 95 MiB": {
    run: (target) => together(NUM_LARGE_BODIES, sendLarge, target),
  },
  "12 bodies in chunks of a byte": { run: (target) => together(NUM_FLOODS, sendChunks, target) },
  "12 clients that wait for no answer": {
    run: (target) => together(NUM_FLOODS, sendAhead, target),
  },
  "floods of connections": { run: (target) => together(NUM_OPENING, openAndClose, target) },
  "floods of connections that ask": {
    run: (target) => together(NUM_OPENING, openAndAsk, target),
  },
  "10 slow bodies": { run: (target) => together(NUM_SLOW, sendSlowly, target) },
  "24 images of 64 megapixels": {
    kinds: IMAGE_KINDS,
    run: (target) => {
      const bodies = plainImages(NUM_IMAGES, LARGE_SIDE).map((url) => withImage(target.small, url));
      let next = 0;
      return together(
        NUM_IMAGES,
        ({ url, small }) => post(url + small.path, bodies[next++]!),
        target,
      );
    },
  },
  "4 recordings of 8 hours": {
    kinds: ["asr"],
    run: (target) => {
      const file = new Blob([longRecording()]);
      const send: Hostile = ({ url }) => {
        const form = new FormData();
        form.set("file", file, "long.flac");
        return post(`${url}/v1/audio/transcriptions`, form, {});
      };
      return together(NUM_RECORDINGS, send, target);
    },
  },
};

/** The requests of a busy server: none is hostile. */
async function sendSmall({ url }: Target, options: ScenarioOptions): Promise<Tallies> {
  const all = new Tally();
  let next = 0;
  const worker = async () => {
    for (let n = next++; n < options.numRequests; n = next++) {
      const { path, body } = smallRequest(options.kind, FIRST_OF_MANY + n);
      await time(all, () => post(url + path, body));
    }
  };
  await Promise.all(Array.from({ length: FEW }, worker));
  return { all };
}

async function sendMixed(target: Target, { numRequests }: ScenarioOptions): Promise<Tallies> {
  const tallies: Tallies = {};
  const light = Object.entries(LIGHT);
  const heavy = Object.entries(HEAVY);
  let next = 0;
  const worker = async () => {
    for (let n = next++; n < numRequests; n = next++) {
      const [name, send] = n % HEAVY_EVERY === HEAVY_EVERY - 1
        ? heavy[Math.floor(n / HEAVY_EVERY) % heavy.length]!
        : light[n % light.length]!;
      await time(tallies[name] ??= new Tally(), () => send(target));
    }
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, worker));
  return tallies;
}

async function together(count: number, send: Hostile, target: Target): Promise<Tallies> {
  const all = new Tally();
  await Promise.all(Array.from({ length: count }, () => time(all, () => send(target))));
  return { all };
}

function idle({ url }: Target): Promise<string> {
  return raw(url, () => pause(IDLE_MS));
}

/** A chat about an image, also for models without image input, which refuse it. Matting accepts only the image. */
export function withImage({ model, path }: SmallRequest, url: string): string {
  const image = { type: "image_url", image_url: { url } };
  const body = path.startsWith("/v1/images/")
    ? { messages: [{ role: "user", content: [image] }] }
    : {
      messages: [{ role: "user", content: [image, { type: "text", text: "What?" }] }],
      max_tokens: 4,
    };
  return JSON.stringify({ model, ...body });
}

/** Sends 95 MiB as fast as possible, as an image that is invalid. */
async function sendLarge(target: Target): Promise<string> {
  const [before, after] = withImage(target.small, "data:image/png;base64,").split(/(?<=base64,)/);
  return await sendBody(target, async function* () {
    yield encoder.encode(before);
    const piece = new Uint8Array(MIB).fill("A".charCodeAt(0));
    let rest = LARGE_BODY_BYTES - before!.length - after!.length;
    for (; rest > 0; rest -= piece.length) yield piece.subarray(0, rest);
    yield encoder.encode(after);
  });
}

/** Sends spaces before a body's JSON, each as a chunk, as fast as possible. */
async function sendChunks({ url, small }: Target): Promise<string> {
  const { host } = new URL(url);
  const first = `POST ${small.path} HTTP/1.1\r\nHost: ${host}\r\n` +
    "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
  return await flood(url, { first, then: "1\r\n \r\n".repeat(10_000) });
}

/** Sends requests as fast as possible, without waiting for answers. */
async function sendAhead({ url }: Target): Promise<string> {
  const request = `GET /health HTTP/1.1\r\nHost: ${new URL(url).host}\r\n\r\n`;
  return await flood(url, { first: "", then: request.repeat(1_000) });
}

/** Opens connections and closes them without sending anything. */
async function openAndClose({ url }: Target): Promise<string> {
  return await keepOpening(url, () => Promise.resolve());
}

/** Opens connections, sends a request, and closes them without waiting for the answer. */
async function openAndAsk({ url }: Target): Promise<string> {
  const request = encoder.encode(`GET /health HTTP/1.1\r\nHost: ${new URL(url).host}\r\n\r\n`);
  return await keepOpening(url, async (tcp) => void await tcp.write(request));
}

/** Opens connections one after the other for some seconds. */
async function keepOpening(
  url: string,
  use: (tcp: Deno.TcpConn) => Promise<void>,
): Promise<string> {
  const end = performance.now() + FLOOD_MS;
  while (performance.now() < end) await raw(url, use);
  return "closed";
}

/** Sends for some seconds, and reads the answers. */
async function flood(
  url: string,
  { first, then }: { readonly first: string; readonly then: string },
): Promise<string> {
  return await raw(url, async (tcp) => {
    const drained = (async () => {
      const buffer = new Uint8Array(MIB / 16);
      while (await tcp.read(buffer) !== null);
    })().catch(() => {});
    const timer = setTimeout(() => tcp.close(), FLOOD_MS);
    try {
      await tcp.write(encoder.encode(first));
      const piece = encoder.encode(then);
      for (;;) {
        for (let at = 0; at < piece.length; at += await tcp.write(piece.subarray(at)));
      }
    } finally {
      clearTimeout(timer);
      await drained;
    }
  });
}

/** Announces 95 MiB, sends the first 128 KiB, then one kilobyte per second. */
async function sendSlowly(target: Target): Promise<string> {
  return await sendBody(target, async function* () {
    yield new Uint8Array(SLOW_HEAD_BYTES).fill(" ".charCodeAt(0));
    for (;;) {
      yield new Uint8Array(SLOW_BYTES).fill(" ".charCodeAt(0));
      await pause(1_000);
    }
  });
}

/** Sends a body of 95 MiB until it is answered. @returns the status, or `closed`. */
async function sendBody(
  target: Target,
  body: () => AsyncIterable<Uint8Array>,
): Promise<string> {
  let status = "closed";
  await raw(target.url, async (tcp) => {
    await tcp.write(head(target, LARGE_BODY_BYTES));
    const answer = new Uint8Array(STATUS_LINE.length);
    const answered = tcp.read(answer).then(() => {
      status = new TextDecoder().decode(answer.subarray(STATUS_LINE.length - 3));
    });
    for await (const piece of body()) {
      for (let at = 0; at < piece.length; at += await tcp.write(piece.subarray(at)));
      if (status !== "closed") break;
    }
    await answered;
  });
  return status;
}
