/**
 * A live transcription session: takes audio and events from the client, and sends it the turns and their transcripts.
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
  describeBetaSession,
  describeSession,
  makeErrorEvent,
  parseClientEvent,
  type RealtimeSettings,
  type ServerEvent,
  updateSettings,
} from "../../../wire/realtime.ts";
import type { Session } from "../../session/session.ts";
import type { BodyBudget, BodyShare } from "../body/body.ts";
import { CLOSE_CODES, type MessageSocket } from "../connection/message_socket.ts";
import { InputAudioBuffer, PartialTranscripts } from "./partial_transcripts.ts";
import { LiveTranscripts } from "./live_transcripts.ts";
import { LoudnessDetector, TurnDetector, VoiceDetector } from "./turn_detector.ts";

/** Speech is detected in chunks of this length. Between two chunks, other sessions get time. */
const CHUNK_MS = 500;
/** Maximum length of the audio that is not committed yet. */
const MAX_HELD_MS = 15 * 60_000;
/** Shorter audio cannot be committed, as in OpenAI's API. */
const MIN_TURN_MS = 100;
/** A session is closed if its client sends nothing for this long. */
const IDLE_MS = 10 * 60_000;

interface LiveSessionOptions {
  readonly socket: MessageSocket;
  readonly session: Session;
  readonly requestId: string;
  /** The memory budget that all request bodies and the buffered audio of all sessions share. */
  readonly budget: BodyBudget;
  /** Whether the client uses the events of the API's beta version. */
  readonly isBeta: boolean;
  /** How long a client may send nothing; ten minutes if absent. */
  readonly idleMs?: number | undefined;
}

/** Detects speech in the audio, and divides it into turns. */
interface TurnDetection {
  readonly detector: LoudnessDetector | VoiceDetector;
  readonly turns: TurnDetector;
}

/** A live session. It runs until the client disconnects or is idle for too long, or the server stops. */
export class LiveSession {
  readonly #options: LiveSessionOptions;
  readonly #id = newId("sess");
  readonly #transcripts: LiveTranscripts;
  readonly #partials: PartialTranscripts;
  #settings: RealtimeSettings = DEFAULT_SETTINGS;
  #audio = new InputAudioBuffer(DEFAULT_SETTINGS.format, { startMs: 0 });
  readonly #share: BodyShare;
  #heldBytes = 0;
  #turnDetection: TurnDetection | undefined;
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
    this.#turnDetection = this.#startTurnDetection();
  }

  /** Number of turns and duration of the audio, for the log. */
  get figures(): { readonly turns: number; readonly audioSeconds: number } {
    return { turns: this.#numTurns, audioSeconds: Math.round(this.#audio.endMs / 100) / 10 };
  }

  /** Serves the client until the session is over, and then closes the connection. */
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
      const { isBeta } = this.#options;
      await this.#sendSession(isBeta ? "transcription_session.created" : "session.created");
      for await (const bytes of socket) {
        clearTimeout(idleTimer);
        if (this.#isStopping) return;
        await this.#receive(bytes);
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

  async #receive(bytes: Uint8Array): Promise<void> {
    let event: ClientEvent | undefined;
    try {
      event = parseClientEvent(bytes);
      await this.#handleEvent(event);
    } catch (thrown) {
      if (this.#options.socket.closed.aborted) return;
      await this.#send(makeErrorEvent(HearthError.from(thrown), event?.event_id));
    }
  }

  async #handleEvent(event: ClientEvent): Promise<void> {
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
    // Buffered audio cannot be continued in another format.
    if (!isDeepStrictEqual(format, formatBefore)) await this.#clear();
    else if (!isDeepStrictEqual(settings.turns, turnsBefore)) {
      this.#turnDetection = this.#startTurnDetection();
    }
  }

  async #append(bytes: Uint8Array): Promise<void> {
    const { sampleRateHz } = this.#settings.format;
    const samples = this.#audio.decode(bytes);
    if (this.#audio.durationMs + 1000 * samples.length / sampleRateHz > MAX_HELD_MS) {
      throw new HearthError(
        "payload_too_large",
        `At most ${
          MAX_HELD_MS / 60_000
        } minutes of audio may be buffered: commit or clear it first.`,
      );
    }
    this.#share.take(samples.byteLength);
    this.#heldBytes += samples.byteLength;
    if (this.#settings.turns !== undefined) this.#turnDetection ??= this.#startTurnDetection();
    const chunkSamples = Math.round(CHUNK_MS * sampleRateHz / 1000);
    for (let at = 0; at < samples.length && !this.#isStopping; at += chunkSamples) {
      const chunk = samples.subarray(at, at + chunkSamples);
      this.#audio.push(chunk);
      if (this.#turnDetection !== undefined) await this.#findTurns(chunk, this.#turnDetection);
      if (samples.length > chunkSamples) await yieldToEvents();
    }
    this.#updatePartial();
  }

  /**
   * Starts a partial transcript of the open turn, which sends the part of the text that is already final. Does nothing
   * while earlier turns are still being transcribed.
   */
  #updatePartial(): void {
    const isOpen = this.#turnDetection?.turns.isInTurn ?? this.#settings.turns === undefined;
    if (!isOpen || this.#transcripts.isPending || this.#isStopping) return;
    const { language } = this.#settings;
    this.#partials.update({ itemId: this.#itemId, audio: this.#audio, language });
  }

  async #findTurns(samples: Int16Array, { detector, turns }: TurnDetection): Promise<void> {
    for (const likelihood of await this.#detectSpeech(samples, detector)) {
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
    this.#audio.dropTo(turns.neededFromMs);
    this.#recount();
  }

  async #detectSpeech(
    samples: Int16Array,
    detector: TurnDetection["detector"],
  ): Promise<readonly number[]> {
    try {
      return await detector.push(samples);
    } catch (error) {
      // The detector has lost its position in the audio. The next audio gets a new detector.
      this.#turnDetection = undefined;
      throw error;
    }
  }

  async #commit(): Promise<void> {
    const { durationMs, endMs } = this.#audio;
    if (durationMs < MIN_TURN_MS) {
      const message = `There is too little audio to commit: want at least ${MIN_TURN_MS} ms, saw ` +
        `${durationMs.toFixed(0)} ms.`;
      throw new HearthError("input_audio_buffer_commit_empty", message);
    }
    await this.#addTurn(endMs);
    this.#turnDetection = this.#startTurnDetection();
  }

  /** Ends the turn at a position, and has its audio transcribed. */
  async #addTurn(endMs: number): Promise<void> {
    const { format: { sampleRateHz }, language } = this.#settings;
    const itemId = this.#itemId;
    const previous_item_id = this.#previousItemId;
    const agreed = await this.#partials.end();
    const samples = this.#audio.takeTo(endMs);
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
    const types = this.#options.isBeta
      ? ["conversation.item.created"]
      : ["conversation.item.added", "conversation.item.done"];
    for (const type of types) await this.#send({ type, previous_item_id, item });
    await this.#transcripts.add({ itemId, samples, sampleRateHz, language, agreed });
  }

  async #clear(): Promise<void> {
    await this.#partials.end();
    this.#audio = new InputAudioBuffer(this.#settings.format, { startMs: this.#audio.endMs });
    this.#itemId = newId("item");
    this.#recount();
    this.#turnDetection = this.#startTurnDetection();
  }

  /** Gives the memory of audio that is no longer buffered back to the budget. */
  #recount(): void {
    const { numBytes } = this.#audio;
    this.#share.give(this.#heldBytes - numBytes);
    this.#heldBytes = numBytes;
  }

  /** Starts turn detection at the end of the buffered audio; `undefined` if the client decides where turns end. */
  #startTurnDetection(): TurnDetection | undefined {
    const { turns: wanted, format: { sampleRateHz } } = this.#settings;
    if (wanted === undefined) return undefined;
    const { session, requestId, socket: { closed: signal } } = this.#options;
    const { voiceActivity: windows } = session.requireReady();
    const detector = windows === undefined
      ? new LoudnessDetector(sampleRateHz)
      : new VoiceDetector({ session, requestId, windows, sampleRateHz, signal });
    const { windowMs } = detector;
    const { endMs } = this.#audio;
    return { detector, turns: new TurnDetector(wanted, { windowMs, startMs: endMs }) };
  }

  async #sendSession(type: string): Promise<void> {
    const { id: model } = this.#options.session.requireReady();
    const describe = type.startsWith("transcription_session")
      ? describeBetaSession
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
