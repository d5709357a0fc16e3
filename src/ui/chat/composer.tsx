/**
 * The message input.
 *
 * @module
 */
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Failure, useDroppedFiles, usePastedFiles } from "../controls.tsx";
import { readAttachments } from "./attachments.ts";
import type { Draft } from "./chat_database.ts";

/** A draft is stored when nothing was typed for this long, and when the page is left. */
const KEEP_AFTER_MS = 200;

/** A draft without the id of its conversation. */
export type Written = Omit<Draft, "conversationId">;

const NOTHING: Written = { text: "", images: [], files: [] };

export function Composer(props: {
  takesImages: boolean;
  takesAudio: boolean;
  isBusy: boolean;
  /** The draft stored earlier. */
  draft: Written | undefined;
  onDraft: (draft: Written) => void;
  onSend: (message: Written) => void;
  onStop: () => void;
  /** Renders more buttons, given a function that adds to the text. */
  tools?: (addText: (text: string) => void) => ComponentChildren;
}): JSX.Element {
  const { takesImages, takesAudio, isBusy, draft, onDraft, onSend, onStop, tools } = props;
  const [written, setWritten] = useState<Written>(() => ({ ...NOTHING, ...draft }));
  const [failure, setFailure] = useState<string>();
  const input = useRef<HTMLInputElement>(null);
  useKeptDraft(written, onDraft);
  const { text, images, files } = written;
  const addFiles = async (added: readonly File[]) => {
    if (added.length === 0) return;
    setFailure(undefined);
    try {
      const read = await readAttachments(added, { takesImages, takesAudio });
      setWritten((before) => ({
        ...before,
        images: [...before.images, ...read.images],
        files: [...before.files, ...read.files],
      }));
    } catch (error) {
      setFailure((error as Error).message);
    }
  };
  usePastedFiles("*/*", addFiles);
  useDroppedFiles(addFiles);
  const isEmpty = text.trim() === "" && images.length + files.length === 0;
  const send = () => {
    if (isEmpty || isBusy) return;
    onSend(written);
    setWritten(NOTHING);
    // Stored at once, so that a sent message does not come back as a draft.
    onDraft(NOTHING);
    setFailure(undefined);
  };
  return (
    <form
      class="composer"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      <Failure message={failure} />
      <Attached written={written} onChange={setWritten} />
      <textarea
        aria-label="Message"
        placeholder="Message"
        dir="auto"
        rows={Math.min(8, text.split("\n").length + 1)}
        value={text}
        onInput={({ currentTarget: { value } }) => setWritten({ ...written, text: value })}
        onKeyDown={(event) => {
          if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
          event.preventDefault();
          send();
        }}
      />
      <div class="row">
        <button type="button" onClick={() => input.current?.click()}>Add files</button>
        <input
          ref={input}
          type="file"
          multiple
          hidden
          aria-label="Files to send"
          onChange={(event) => {
            addFiles([...event.currentTarget.files ?? []]);
            event.currentTarget.value = "";
          }}
        />
        {tools?.((added) =>
          setWritten((before) => ({
            ...before,
            text: before.text === "" ? added : `${before.text.trimEnd()} ${added}`,
          }))
        )}
        <span class="hint">
          {isBusy ? "Esc stops" : "Enter sends, Shift+Enter starts a new line"}
        </span>
        {isBusy
          ? <button type="button" class="main" onClick={onStop}>Stop</button>
          : <button type="submit" class="main" disabled={isEmpty}>Send</button>}
      </div>
    </form>
  );
}

/** Stores the draft soon after it changes, and at once when the page or the conversation is left. */
function useKeptDraft(written: Written, onDraft: (draft: Written) => void): void {
  const keep = useRef(onDraft);
  keep.current = onDraft;
  const pending = useRef<() => void>(undefined);
  const isFirst = useRef(true);
  // A layout effect, since the page may be left before the next frame.
  useLayoutEffect(() => {
    if (isFirst.current) {
      isFirst.current = false;
      return;
    }
    const flush = () => {
      clearTimeout(timer);
      pending.current = undefined;
      keep.current(written);
    };
    const timer = setTimeout(flush, KEEP_AFTER_MS);
    pending.current = flush;
    return () => clearTimeout(timer);
  }, [written]);
  useEffect(() => {
    const flush = () => pending.current?.();
    addEventListener("pagehide", flush);
    document.addEventListener("visibilitychange", flush);
    return () => {
      removeEventListener("pagehide", flush);
      document.removeEventListener("visibilitychange", flush);
      flush();
    };
  }, []);
}

function Attached({ written, onChange }: {
  written: Written;
  onChange: (written: Written) => void;
}): JSX.Element | null {
  const { images, files } = written;
  if (images.length + files.length === 0) return null;
  return (
    <ul class="thumbs">
      {images.map((url, index) => (
        <li key={`image ${index}`}>
          <img src={url} alt={`Image ${index + 1} to send`} />
          <button
            type="button"
            class="quiet"
            aria-label={`Remove image ${index + 1}`}
            onClick={() => onChange({ ...written, images: images.filter((_, at) => at !== index) })}
          >
            ✕
          </button>
        </li>
      ))}
      {files.map(({ name }, index) => (
        <li key={`file ${index}`} class="file">
          <span>{name}</span>
          <button
            type="button"
            class="quiet"
            aria-label={`Remove ${name}`}
            onClick={() => onChange({ ...written, files: files.filter((_, at) => at !== index) })}
          >
            ✕
          </button>
        </li>
      ))}
    </ul>
  );
}
