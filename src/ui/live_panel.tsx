/**
 * Shows the text of the microphone's sound while it is spoken.
 *
 * @module
 */
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { CopyButton, Failure, SaveButton } from "./controls.tsx";
import { LiveTranscription, type SpokenTurn } from "./live_transcription.ts";

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
