/**
 * The message input, and the files that are attached to a message.
 *
 * @module
 */
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Failure, QuietButton } from "../controls.tsx";
import {
  FileButton,
  IMAGE_FORMATS,
  MAX_IN_JSON_MIB,
  readDataUrl,
  refuseLarge,
  useDroppedFiles,
  usePastedFiles,
} from "../files.tsx";
import type { Attachment, Draft } from "./conversation.ts";

/** A draft is stored when nothing was typed for this long, and when the page is left. */
const KEEP_AFTER_MS = 200;

/** A draft without the id of its conversation. */
export type Written = Omit<Draft, "conversationId">;

const NOTHING: Written = { text: "", images: [], files: [] };

export function Composer(props: {
  takesImages: boolean;
  takesAudio: boolean;
  isBusy: boolean;
  /** The draft that was stored earlier. */
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
    // The empty draft is stored at once, so that a sent message does not come back as a draft.
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
        <FileButton label="Files to send" multiple onFiles={addFiles}>Add files</FileButton>
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
          <QuietButton
            aria-label={`Remove image ${index + 1}`}
            onClick={() => onChange({ ...written, images: images.toSpliced(index, 1) })}
          >
            ✕
          </QuietButton>
        </li>
      ))}
      {files.map(({ name }, index) => (
        <li key={`file ${index}`} class="file">
          <span>{name}</span>
          <QuietButton
            aria-label={`Remove ${name}`}
            onClick={() => onChange({ ...written, files: files.toSpliced(index, 1) })}
          >
            ✕
          </QuietButton>
        </li>
      ))}
    </ul>
  );
}

/** Largest text file. A longer text does not fit into the context of any model. */
const MAX_TEXT_MIB = 4;

/** The attached files, as they are sent. */
interface Attachments {
  readonly images: readonly string[];
  readonly files: readonly Attachment[];
}

/** Media that the model takes besides text files and PDFs. */
interface Taken {
  readonly takesImages: boolean;
  readonly takesAudio: boolean;
}

/**
 * Reads images, recordings, PDFs and text files.
 *
 * @throws {Error} that names the first file that cannot be sent, and says why.
 */
async function readAttachments(
  files: readonly File[],
  taken: Taken,
): Promise<Attachments> {
  const images: string[] = [];
  const documents: Attachment[] = [];
  for (const file of files) {
    if (isImage(file)) {
      if (!taken.takesImages) {
        throw new Error(
          `${file.name} was not added: this model cannot read images.`,
        );
      }
      requireSize(file, MAX_IN_JSON_MIB);
      images.push(await readDataUrl(file));
    } else if (file.type === "application/pdf" || /\.pdf$/i.test(file.name)) {
      requireSize(file, MAX_IN_JSON_MIB);
      const dataUrl = await readDataUrl(new Blob([file], { type: "application/pdf" }));
      documents.push({ name: file.name, dataUrl });
    } else if (taken.takesAudio && /^(?:audio|video)\//.test(file.type)) {
      requireSize(file, MAX_IN_JSON_MIB);
      documents.push({ name: file.name, dataUrl: await readDataUrl(file) });
    } else {
      documents.push({ name: file.name, text: await readText(file, taken) });
    }
  }
  return { images, files: documents };
}

/** Whether a file is an image, also by the extension: browsers do not know the types of some images. */
function isImage({ type, name }: File): boolean {
  return type.startsWith("image/") && type !== "image/svg+xml" ||
    /\.(?:heic|heif|avif|tiff?|jxl)$/i.test(name);
}

function requireSize(file: File, maxMib: number): void {
  const refusal = refuseLarge(file, maxMib);
  if (refusal !== undefined) throw new Error(refusal);
}

async function readText(file: File, { takesImages, takesAudio }: Taken): Promise<string> {
  const bytes = new Uint8Array(await file.slice(0, MAX_TEXT_MIB * 2 ** 20).arrayBuffer());
  const text = decodeText(bytes);
  if (text === undefined) {
    const images = takesImages ? `images (${IMAGE_FORMATS}), ` : "";
    const sounds = takesAudio ? "recordings, " : "";
    throw new Error(
      `${file.name} is neither text nor a PDF. Add ${images}${sounds}text files or PDFs.`,
    );
  }
  requireSize(file, MAX_TEXT_MIB);
  return text;
}

/** Decodes UTF-8, or UTF-16 with a byte order mark; `undefined` if it is not text. */
function decodeText(bytes: Uint8Array): string | undefined {
  const mark = bytes[0]! << 8 | bytes[1]!;
  const encoding = mark === 0xfffe ? "utf-16le" : mark === 0xfeff ? "utf-16be" : "utf-8";
  try {
    // Of a large file only the beginning was read, and that may end within a character.
    const text = new TextDecoder(encoding, { fatal: true }).decode(bytes, { stream: true });
    return text.includes("\0") ? undefined : text;
  } catch {
    return undefined;
  }
}
