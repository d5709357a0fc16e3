/**
 * The microphone: a button that records from it, and live transcription, which sends sound as it is heard and shows the
 * text of each turn when the speaker pauses.
 *
 * @module
 */
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { openSocket } from "./server.ts";
import { CopyButton, Failure } from "./controls.tsx";
import { SaveButton } from "./files.tsx";

/** A button that records. Calls `onRecorded` with the finished recording. */
export function RecordButton({ labels = ["Record", "Stop recording"], onRecorded, onFailure }: {
  labels?: readonly [begin: string, end: string];
  onRecorded: (file: File) => void;
  onFailure: (message: string) => void;
}): JSX.Element {
  const [isRecording, setIsRecording] = useState(false);
  const recorder = useRef<MediaRecorder | undefined>(undefined);
  useEffect(() => () => recorder.current?.stop(), []);
  const begin = async () => {
    let stream: MediaStream;
    try {
      stream = await openMicrophone();
    } catch (error) {
      return onFailure((error as Error).message);
    }
    const parts: Blob[] = [];
    const made = recorder.current = new MediaRecorder(stream);
    made.ondataavailable = ({ data }) => parts.push(data);
    made.onstop = () => {
      recorder.current = undefined;
      for (const track of stream.getTracks()) track.stop();
      setIsRecording(false);
      onRecorded(new File(parts, "recording.webm", { type: made.mimeType }));
    };
    made.start();
    setIsRecording(true);
  };
  return (
    <button
      type="button"
      aria-pressed={isRecording}
      onClick={() => isRecording ? recorder.current?.stop() : begin()}
    >
      {labels[isRecording ? 1 : 0]}
    </button>
  );
}

/** Sample rate of {@linkcode listen}. */
const LISTEN_RATE = 24_000;

/** Asks the browser for the microphone. @throws {Error} with the reason, in words for the user. */
async function openMicrophone(): Promise<MediaStream> {
  if (navigator.mediaDevices === undefined) {
    throw new Error(
      `Browsers allow the microphone only on https:// pages and localhost, and this page is at ` +
        `${location.origin}. Record with another program and choose the file here.`,
    );
  }
  try {
    return await navigator.mediaDevices.getUserMedia({ audio: true });
  } catch (error) {
    throw new Error(`The microphone cannot be used: ${(error as Error).message}`);
  }
}

/**
 * Calls `onSound` with 16-bit samples at {@linkcode LISTEN_RATE} as they are heard.
 *
 * @returns a function that stops listening.
 */
async function listen(
  stream: MediaStream,
  onSound: (samples: Int16Array<ArrayBuffer>) => void,
): Promise<() => Promise<void>> {
  const context = new AudioContext({ sampleRate: LISTEN_RATE });
  await context.audioWorklet.addModule(new URL("microphone_worklet.js", import.meta.url));
  const node = new AudioWorkletNode(context, "microphone", { numberOfOutputs: 0 });
  node.port.onmessage = ({ data }) => onSound(data);
  context.createMediaStreamSource(stream).connect(node);
  return async () => {
    for (const track of stream.getTracks()) track.stop();
    if (context.state !== "closed") await context.close();
  };
}

/** The text between two pauses, as far as it is known. */
interface SpokenTurn {
  readonly id: string;
  readonly text: string;
}

/** How long to wait for the last turn's text after the last sound. */
const LAST_TURN_MS = 20_000;

interface ServerEvent {
  readonly type: string;
  readonly item_id?: string;
  readonly delta?: string;
  readonly transcript?: string;
  readonly error?: { readonly message?: string };
}

/** A session in which the server transcribes what the microphone hears. */
class LiveTranscription {
  readonly #socket: WebSocket;
  readonly #onTurns: (turns: readonly SpokenTurn[]) => void;
  readonly #waiting = new Set<string>();
  readonly #ended = Promise.withResolvers<void>();
  #turns: readonly SpokenTurn[] = [];
  #stopListening: (() => Promise<void>) | undefined;
  #isStopping = false;

  private constructor(socket: WebSocket, onTurns: (turns: readonly SpokenTurn[]) => void) {
    this.#socket = socket;
    this.#onTurns = onTurns;
    socket.onmessage = ({ data }) => this.#hear(JSON.parse(data));
    socket.onclose = ({ wasClean, reason }) => {
      if (wasClean && (this.#isStopping || reason === "")) this.#ended.resolve();
      else this.#ended.reject(new Error(reason || "The connection to the server was lost."));
    };
  }

  /**
   * Begins to listen.
   *
   * @throws {Error} when access to the microphone or to the server fails.
   */
  static async start({ model, language, onTurns }: {
    readonly model: string;
    /** Code of the spoken language; detected by the model if empty. */
    readonly language: string;
    readonly onTurns: (turns: readonly SpokenTurn[]) => void;
  }): Promise<LiveTranscription> {
    const stream = await openMicrophone();
    let socket: WebSocket | undefined;
    try {
      const query = `intent=transcription&model=${encodeURIComponent(model)}`;
      socket = await openSocket(`v1/realtime?${query}`);
      const live = new LiveTranscription(socket, onTurns);
      if (language !== "") {
        const input = { transcription: { language } };
        const session = { type: "transcription", audio: { input } };
        live.#send({ type: "session.update", session });
      }
      live.#stopListening = await listen(stream, (samples) => {
        live.#send({ type: "input_audio_buffer.append", audio: toBase64(samples) });
      });
      return live;
    } catch (error) {
      for (const track of stream.getTracks()) track.stop();
      socket?.close();
      throw error;
    }
  }

  /**
   * Resolves when the session is over.
   *
   * @throws {Error} when something other than {@linkcode stop} ended it.
   */
  get ended(): Promise<void> {
    return this.#ended.promise.finally(() => this.#stopListening?.());
  }

  /** Ends the last turn. When the text of that turn has arrived, ends the session. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    await this.#stopListening?.();
    this.#send({ type: "input_audio_buffer.commit" });
    setTimeout(() => this.#socket.close(), LAST_TURN_MS);
  }

  #send(event: unknown): void {
    if (this.#socket.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(event));
  }

  #hear({ type, item_id: id = "", delta = "", transcript = "", error }: ServerEvent): void {
    if (type === "input_audio_buffer.committed") this.#waiting.add(id);
    if (type === "conversation.item.input_audio_transcription.delta") {
      this.#put(id, (before) => before + delta);
    }
    if (type === "conversation.item.input_audio_transcription.completed") {
      this.#put(id, () => transcript);
      this.#waiting.delete(id);
    }
    if (type === "conversation.item.input_audio_transcription.failed") {
      this.#put(id, (before) => `${before} [${error?.message ?? "failed"}]`);
      this.#waiting.delete(id);
    }
    // The last commit may find nothing to transcribe, which is not an error.
    if (type === "error" && !this.#isStopping) this.#ended.reject(new Error(error?.message));
    const isAnswer = type !== "input_audio_buffer.committed" && type !== "conversation.item.added";
    if (this.#isStopping && isAnswer && this.#waiting.size === 0) this.#socket.close();
  }

  #put(id: string, write: (before: string) => string): void {
    const at = this.#turns.findIndex((turn) => turn.id === id);
    const turn = { id, text: write(this.#turns[at]?.text ?? "") };
    this.#turns = at < 0 ? [...this.#turns, turn] : this.#turns.with(at, turn);
    this.#onTurns(this.#turns);
  }
}

/** Encodes samples as base64, in little-endian, the byte order of all machines that browsers run on. */
function toBase64(samples: Int16Array<ArrayBuffer>): string {
  const bytes = new Uint8Array(samples.buffer);
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
}

export function LivePanel({ model, language }: { model: string; language: string }): JSX.Element {
  const [turns, setTurns] = useState<readonly SpokenTurn[]>([]);
  const [state, setState] = useState<"idle" | "listening" | "ending">("idle");
  const [failure, setFailure] = useState<string>();
  const live = useRef<LiveTranscription | undefined>(undefined);
  useEffect(() => () => void live.current?.stop(), []);
  const begin = async () => {
    setFailure(undefined);
    setTurns([]);
    setState("listening");
    try {
      live.current = await LiveTranscription.start({ model, language, onTurns: setTurns });
      await live.current.ended;
    } catch (error) {
      setFailure((error as Error).message);
    }
    live.current = undefined;
    setState("idle");
  };
  const end = () => {
    setState("ending");
    live.current?.stop();
  };
  const text = () => turns.map((turn) => turn.text.trim()).join("\n");
  return (
    <>
      <div class="row">
        {state === "listening"
          ? <button type="button" aria-pressed onClick={end}>Stop listening</button>
          : (
            <button type="button" disabled={state === "ending"} onClick={begin}>
              {state === "ending" ? "Ending …" : "Transcribe live"}
            </button>
          )}
        {turns.length > 0 && state === "idle" && (
          <>
            <CopyButton text={text} />
            <SaveButton name="transcript.txt" make={() => new Blob([text()])}>Save text</SaveButton>
          </>
        )}
        {state === "listening" && <span class="soft dots" role="status">Listening</span>}
      </div>
      <Failure message={failure} />
      {turns.length > 0 && (
        <ul class="transcript live" aria-live="polite" aria-label="Transcript">
          {turns.map(({ id, text }) => <li key={id} dir="auto">{text}</li>)}
        </ul>
      )}
    </>
  );
}
