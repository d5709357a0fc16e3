/**
 * A live transcription session: takes the client's audio and events, and sends turns and transcripts.
 *
 * @module
 */
import { isDeepStrictEqual } from "node:util";
import { newId } from "../requests.ts";
import { HearthError } from "../../../base/errors.ts";
import { yieldToEvents } from "../../../base/timing.ts";
import {
  type ClientEvent,
  decodeAppended,
  DEFAULT_SETTINGS,
  describeOlderSession,
  describeSession,
  errorEvent,
  parseClientEvent,
  type RealtimeSettings,
  type ServerEvent,
  updateSettings,
} from "../../../wire/realtime.ts";
import type { Session } from "../../session/session.ts";
import type { BodyBudget, BodyShare } from "../body/body.ts";
import { CLOSE_CODES, type MessageSocket } from "../connection/message_socket.ts";
import { HeardSound, PartialTranscripts } from "./partial_transcripts.ts";
import { LiveTranscripts } from "./live_transcripts.ts";
import { LoudnessDetector, TurnDetector, VoiceDetector } from "./turn_detector.ts";

/** Length of the chunks in which speech is detected. Other sessions get time between two chunks. */
const CHUNK_MS = 500;
/** Longest audio that may wait to be committed. */
const MAX_HELD_MS = 15 * 60_000;
/** Shorter turns are not transcribed, as in OpenAI's API. */
const MIN_TURN_MS = 100;
/** Sessions whose client sends nothing for this long are closed. */
const IDLE_MS = 10 * 60_000;

interface LiveSessionOptions {
  readonly socket: MessageSocket;
  readonly session: Session;
  readonly requestId: string;
  /** Memory budget for the buffered audio of all sessions. */
  readonly budget: BodyBudget;
  /** Whether the client uses the format of the API's beta. */
  readonly isOlder: boolean;
  /** How long a client may send nothing; ten minutes if absent. */
  readonly idleMs?: number | undefined;
}

/** Detects speech, and divides it into turns. */
interface Listening {
  readonly detector: LoudnessDetector | VoiceDetector;
  readonly turns: TurnDetector;
}

/** A live session. It runs until the client leaves, is idle for too long, or the server stops. */
export class LiveSession {
  readonly #options: LiveSessionOptions;
  readonly #id = newId("sess");
  readonly #transcripts: LiveTranscripts;
  readonly #partials: PartialTranscripts;
  #settings: RealtimeSettings = DEFAULT_SETTINGS;
  #sound = new HeardSound(DEFAULT_SETTINGS.format, { startMs: 0 });
  readonly #share: BodyShare;
  #heldBytes = 0;
  #listening: Listening | undefined;
  /** Id of the open turn, or of the next one. */
  #itemId = newId("item");
  #previousItemId: string | null = null;
  #numTurns = 0;
  #isStopping = false;

  constructor(options: LiveSessionOptions) {
    const { session, requestId, socket: { closed: signal }, budget } = options;
    this.#options = options;
    this.#share = budget.open();
    const send = (event: ServerEvent) => this.#send(event);
    this.#transcripts = new LiveTranscripts({ session, requestId, signal, send });
    this.#partials = new PartialTranscripts({ session, requestId, signal, send });
    this.#listening = this.#listen();
  }

  /** Number of turns and duration of the audio, for the log. */
  get figures(): { readonly turns: number; readonly audioSeconds: number } {
    return { turns: this.#numTurns, audioSeconds: Math.round(this.#sound.endMs / 100) / 10 };
  }

  /** Resolves when the session is over and its connection closes. */
  async run(): Promise<void> {
    const { socket, session, idleMs = IDLE_MS } = this.#options;
    const over = Promise.withResolvers<{ code: number; reason: string }>();
    const unsubscribe = session.onStateChange(({ phase }) => {
      if (phase === "stopping") {
        over.resolve({ code: CLOSE_CODES.goingAway, reason: "The server is shutting down." });
      }
    });
    const expire = () =>
      over.resolve({
        code: CLOSE_CODES.done,
        reason: `The client sent nothing for ${idleMs / 1000} s.`,
      });
    let idleTimer = setTimeout(expire, idleMs);
    const serve = async () => {
      const { isOlder } = this.#options;
      await this.#sendSession(isOlder ? "transcription_session.created" : "session.created");
      for await (const bytes of socket) {
        clearTimeout(idleTimer);
        if (this.#isStopping) return;
        await this.#handle(bytes);
        idleTimer = setTimeout(expire, idleMs);
      }
    };
    const end = await Promise.race([over.promise, serve()]);
    this.#isStopping = true;
    clearTimeout(idleTimer);
    unsubscribe();
    await this.#partials.end();
    await this.#transcripts.settle();
    if (end !== undefined) socket.close(end.code, end.reason);
    this.#share[Symbol.dispose]();
  }

  async #handle(bytes: Uint8Array): Promise<void> {
    let event: ClientEvent | undefined;
    try {
      event = parseClientEvent(bytes);
      await this.#obey(event);
    } catch (thrown) {
      if (this.#options.socket.closed.aborted) return;
      await this.#send(errorEvent(HearthError.from(thrown), event?.event_id));
    }
  }

  async #obey(event: ClientEvent): Promise<void> {
    switch (event.type) {
      case "input_audio_buffer.append":
        return await this.#append(decodeAppended(event));
      case "input_audio_buffer.commit":
        return await this.#commit();
      case "input_audio_buffer.clear":
        await this.#clear();
        return await this.#send({ type: "input_audio_buffer.cleared" });
      case "session.update":
        await this.#update(event);
        return await this.#sendSession("session.updated");
      case "transcription_session.update":
        await this.#update(event);
        return await this.#sendSession("transcription_session.updated");
      default:
        throw new HearthError(
          "invalid_value",
          "type: want session.update, transcription_session.update, or input_audio_buffer.append, .commit or " +
            `.clear, saw ${
              JSON.stringify(event.type.slice(0, 60))
            }; this session only transcribes.`,
          { param: "type" },
        );
    }
  }

  async #update(event: ClientEvent): Promise<void> {
    const settings = updateSettings(this.#settings, event, this.#options.session.requireReady());
    const { format } = settings;
    const { format: formatBefore, turns: turnsBefore } = this.#settings;
    this.#settings = settings;
    // Audio in another format cannot be continued.
    if (!isDeepStrictEqual(format, formatBefore)) await this.#clear();
    else if (!isDeepStrictEqual(settings.turns, turnsBefore)) this.#listening = this.#listen();
  }

  async #append(bytes: Uint8Array): Promise<void> {
    const { sampleRateHz } = this.#settings.format;
    const samples = this.#sound.decode(bytes);
    if (this.#sound.durationMs + 1000 * samples.length / sampleRateHz > MAX_HELD_MS) {
      throw new HearthError(
        "payload_too_large",
        `At most ${
          MAX_HELD_MS / 60_000
        } minutes of audio may be buffered: commit or clear it first.`,
      );
    }
    this.#share.take(samples.byteLength);
    this.#heldBytes += samples.byteLength;
    if (this.#settings.turns !== undefined) this.#listening ??= this.#listen();
    const chunkSamples = Math.round(CHUNK_MS * sampleRateHz / 1000);
    for (let at = 0; at < samples.length && !this.#isStopping; at += chunkSamples) {
      const chunk = samples.subarray(at, at + chunkSamples);
      this.#sound.push(chunk);
      if (this.#listening !== undefined) await this.#findTurns(chunk, this.#listening);
      if (samples.length > chunkSamples) await yieldToEvents();
    }
    this.#hearOpenTurn();
  }

  /**
   * Starts a partial transcript of the open turn, which sends the text that is already final. Does nothing while
   * earlier turns are still being transcribed.
   */
  #hearOpenTurn(): void {
    const isOpen = this.#listening?.turns.isInTurn ?? this.#settings.turns === undefined;
    if (!isOpen || this.#transcripts.isPending || this.#isStopping) return;
    const { language } = this.#settings;
    this.#partials.hear({ itemId: this.#itemId, sound: this.#sound, language });
  }

  async #findTurns(samples: Int16Array, { detector, turns }: Listening): Promise<void> {
    for (const likelihood of await this.#hear(samples, detector)) {
      const found = turns.push(likelihood);
      if (found === undefined) continue;
      const itemId = this.#itemId;
      if (found.type === "started") {
        const audio_start_ms = Math.round(found.atMs);
        const event = { type: "input_audio_buffer.speech_started", audio_start_ms };
        await this.#send({ ...event, item_id: itemId });
        continue;
      }
      const audio_end_ms = Math.round(found.atMs);
      const event = { type: "input_audio_buffer.speech_stopped", audio_end_ms, item_id: itemId };
      await this.#send(event);
      await this.#addTurn(found.atMs);
    }
    this.#sound.dropTo(turns.neededFromMs);
    this.#recount();
  }

  async #hear(
    samples: Int16Array,
    detector: Listening["detector"],
  ): Promise<readonly number[]> {
    try {
      return await detector.push(samples);
    } catch (error) {
      // The detector no longer knows its position; the next audio starts a new one.
      this.#listening = undefined;
      throw error;
    }
  }

  async #commit(): Promise<void> {
    const { durationMs, endMs } = this.#sound;
    if (durationMs < MIN_TURN_MS) {
      const message = `There is too little audio to commit: want at least ${MIN_TURN_MS} ms, saw ` +
        `${durationMs.toFixed(0)} ms.`;
      throw new HearthError("input_audio_buffer_commit_empty", message);
    }
    await this.#addTurn(endMs);
    this.#listening = this.#listen();
  }

  /** Ends the turn at a position, and passes its audio on to be transcribed. */
  async #addTurn(endMs: number): Promise<void> {
    const { format: { sampleRateHz }, language } = this.#settings;
    const itemId = this.#itemId;
    const previous_item_id = this.#previousItemId;
    const agreed = await this.#partials.end();
    const samples = this.#sound.takeTo(endMs);
    this.#recount();
    this.#itemId = newId("item");
    this.#previousItemId = itemId;
    this.#numTurns++;
    await this.#send({ type: "input_audio_buffer.committed", previous_item_id, item_id: itemId });
    const item = {
      id: itemId,
      object: "realtime.item",
      type: "message",
      status: "completed",
      role: "user",
      content: [{ type: "input_audio", transcript: null }],
    };
    const types = this.#options.isOlder
      ? ["conversation.item.created"]
      : ["conversation.item.added", "conversation.item.done"];
    for (const type of types) await this.#send({ type, previous_item_id, item });
    await this.#transcripts.add({ itemId, samples, sampleRateHz, language, agreed });
  }

  async #clear(): Promise<void> {
    await this.#partials.end();
    this.#sound = new HeardSound(this.#settings.format, { startMs: this.#sound.endMs });
    this.#itemId = newId("item");
    this.#recount();
    this.#listening = this.#listen();
  }

  /** Gives memory back to the budget once its audio is no longer buffered. */
  #recount(): void {
    const { numBytes } = this.#sound;
    this.#share.give(this.#heldBytes - numBytes);
    this.#heldBytes = numBytes;
  }

  /** Starts looking for turns; `undefined` if the client says where they end. */
  #listen(): Listening | undefined {
    const { turns: wanted, format: { sampleRateHz } } = this.#settings;
    if (wanted === undefined) return undefined;
    const { session, requestId, socket: { closed: signal } } = this.#options;
    const { voiceActivity: windows } = session.requireReady();
    const detector = windows === undefined
      ? new LoudnessDetector(sampleRateHz)
      : new VoiceDetector({ session, requestId, windows, sampleRateHz, signal });
    const { windowMs } = detector;
    const { endMs } = this.#sound;
    return { detector, turns: new TurnDetector(wanted, { windowMs, startMs: endMs }) };
  }

  async #sendSession(type: string): Promise<void> {
    const { id: model } = this.#options.session.requireReady();
    const describe = type.startsWith("transcription_session")
      ? describeOlderSession
      : describeSession;
    const session = describe({ id: this.#id, model, settings: this.#settings });
    await this.#send({ type, session });
  }

  async #send(event: ServerEvent): Promise<void> {
    const { type, ...rest } = event;
    const text = JSON.stringify({ type, event_id: newId("event"), ...rest });
    await this.#options.socket.send(text);
  }
}
