/**
 * Small components and hooks that several pages share, and the clipboard.
 *
 * @module
 */
import type { AllHTMLAttributes, ComponentChildren, JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

/** An error message, announced by screen readers. */
export function Failure({ message }: { message: string | undefined }): JSX.Element | null {
  if (message === undefined || message === "") return null;
  return <p class="failure" role="alert">{message}</p>;
}

type FieldAttribute =
  | ("autocomplete" | "class" | "dir" | "inputMode" | "maxLength" | "placeholder" | "required")
  | ("rows" | "spellcheck" | "aria-invalid");

interface TextFieldProps extends Pick<AllHTMLAttributes, FieldAttribute> {
  readonly type?: "password";
  readonly label: ComponentChildren;
  /** Small print below the label. */
  readonly hint?: ComponentChildren;
  /** Whether the field is only as wide as a few words. */
  readonly isShort?: boolean;
  readonly value: string;
  readonly onInput: (value: string) => void;
}

/** A labelled text field: one line, or an area if `rows` is given. Other properties are attributes of the field. */
export function TextField(
  { label, hint, isShort = false, value, onInput, ...attributes }: TextFieldProps,
): JSX.Element {
  const field = {
    ...attributes,
    value,
    onInput: ({ currentTarget }: { currentTarget: { value: string } }) =>
      onInput(currentTarget.value),
  };
  return (
    <label class={isShort ? "short" : ""}>
      {label}
      {hint && <small>{hint}</small>}
      {attributes.rows === undefined ? <input {...field} /> : <textarea {...field} />}
    </label>
  );
}

/** A labelled checkbox. */
export function Check({ label, isOn, onChange }: {
  label: string;
  isOn: boolean;
  onChange: (isOn: boolean) => void;
}): JSX.Element {
  return (
    <label class="check">
      <input
        type="checkbox"
        checked={isOn}
        onChange={(event) => onChange(event.currentTarget.checked)}
      />
      {label}
    </label>
  );
}

/** The image formats that the server decodes. */
export const IMAGE_FORMATS = "PNG, JPEG, WebP, AVIF, HEIC, GIF, TIFF or BMP";
/** The sound formats that the server decodes. */
export const SOUND_FORMATS = "WAV, MP3, M4A, AAC, Ogg, FLAC, AIFF or WebM";

/** Largest upload: the limit of a request. */
const MAX_UPLOADED_MIB = 100;
/** Largest image that fits into a request as base64, which takes four characters for three bytes. */
export const MAX_IN_JSON_MIB = 75;

/** Why a file is too large; `undefined` if it is not. Reading it would only waste the browser's memory. */
export function refuseLarge({ name, size }: File, maxMib: number): string | undefined {
  const mib = size / 2 ** 20;
  return mib <= maxMib
    ? undefined
    : `${name} is ${Math.ceil(mib)} MiB large. Choose a file of at most ${maxMib} MiB.`;
}

/** An area in which files of one kind can be dropped, pasted or chosen. */
export function FileDrop(
  { accept, label, formats, maxMib = MAX_UPLOADED_MIB, multiple = false, onFiles, children }: {
    /** As in `<input type=file>`. The part before the slash decides which files can be dropped and pasted. */
    accept: string;
    label: string;
    /** Names of the formats, to show to the user. */
    formats: string;
    /** Size of the largest accepted file. */
    maxMib?: number;
    /** Whether several files can be chosen at once. */
    multiple?: boolean;
    onFiles: (files: File[]) => void;
    children?: ComponentChildren;
  },
): JSX.Element {
  const [failure, setFailure] = useState<string>();
  const input = useRef<HTMLInputElement>(null);
  const take = (files: File[]) => {
    if (files.length === 0) return;
    const refusal = files.map((file) => refuseLarge(file, maxMib)).find(Boolean);
    setFailure(refusal);
    if (refusal === undefined) onFiles(files);
  };
  usePastedFiles(accept, take);
  const isOver = useDroppedFiles(take);
  return (
    <div class="drop" data-over={isOver}>
      <p>{label}</p>
      <div class="row">
        <button type="button" onClick={() => input.current?.click()}>
          {multiple ? "Choose files" : "Choose a file"}
        </button>
        {children}
      </div>
      <p class="hint">{formats}, up to {maxMib} MiB</p>
      <Failure message={failure} />
      <input
        ref={input}
        type="file"
        accept={accept}
        multiple={multiple}
        aria-label={label}
        hidden
        onChange={(event) => {
          take([...event.currentTarget.files ?? []]);
          event.currentTarget.value = "";
        }}
      />
    </div>
  );
}

/** Calls `onFiles` with files that are pasted anywhere on the page. */
export function usePastedFiles(accept: string, onFiles: (files: File[]) => void): void {
  const latest = useRef(onFiles);
  latest.current = onFiles;
  useEffect(() => {
    const family = accept.split("/")[0]!;
    const listen = (event: ClipboardEvent) => {
      // Text copied from a table comes with a picture of it, which is not wanted.
      if (event.clipboardData?.types.includes("text/plain")) return;
      const files = [...event.clipboardData?.files ?? []].filter(({ type }) =>
        family === "*" || type.startsWith(family)
      );
      if (files.length > 0) latest.current(files);
    };
    addEventListener("paste", listen);
    return () => removeEventListener("paste", listen);
  }, [accept]);
}

/**
 * Calls `onFiles` with files dropped anywhere on the page, which the browser would otherwise open in its place. Returns
 * whether files are being dragged over it.
 */
export function useDroppedFiles(onFiles: (files: File[]) => void): boolean {
  const [isOver, setIsOver] = useState(false);
  const latest = useRef(onFiles);
  latest.current = onFiles;
  useEffect(() => {
    const controller = new AbortController();
    const { signal } = controller;
    const listen = (name: "dragover" | "dragleave" | "drop", act: (event: DragEvent) => void) =>
      addEventListener(name, (event) => {
        if (!event.dataTransfer?.types.includes("Files")) return;
        event.preventDefault();
        act(event);
      }, { signal });
    listen("dragover", () => setIsOver(true));
    listen("dragleave", ({ relatedTarget }) => relatedTarget === null && setIsOver(false));
    listen("drop", ({ dataTransfer }) => {
      setIsOver(false);
      latest.current([...dataTransfer!.files]);
    });
    return () => controller.abort();
  }, []);
  return isOver;
}

/** Whether the window matches a media query; updated when that changes. */
export function useMedia(query: string): boolean {
  const [isMet, setIsMet] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const list = matchMedia(query);
    const listen = () => setIsMet(list.matches);
    listen();
    list.addEventListener("change", listen);
    return () => list.removeEventListener("change", listen);
  }, [query]);
  return isMet;
}

/** An object URL for the blob, as long as the component is mounted. */
export function useObjectUrl(blob: Blob | undefined): string | undefined {
  const [url, setUrl] = useState<string>();
  useEffect(() => {
    if (blob === undefined) return setUrl(undefined);
    const made = URL.createObjectURL(blob);
    setUrl(made);
    return () => URL.revokeObjectURL(made);
  }, [blob]);
  return url;
}

/** The blob as a `data:` URL. */
export function readDataUrl(blob: Blob): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result as string);
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(blob);
  });
}

/** Makes the browser save a file. */
export function saveFile(blob: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** A button that saves the result of `make`. */
export function SaveButton({ name, make, children }: {
  name: string;
  make: () => Blob | Promise<Blob>;
  children: ComponentChildren;
}): JSX.Element {
  return (
    <button type="button" onClick={async () => saveFile(await make(), name)}>{children}</button>
  );
}

/** A button that copies the result of `text`. */
export function CopyButton({ text, ...rest }: { text: () => string; class?: string }): JSX.Element {
  const [isCopied, setIsCopied] = useState(false);
  const copy = async () => {
    await copyText(text());
    setIsCopied(true);
    setTimeout(() => setIsCopied(false), 1500);
  };
  return (
    <button type="button" class={rest.class ?? ""} onClick={copy}>
      {isCopied ? "Copied" : "Copy"}
    </button>
  );
}

/** A panel beside the page in wide windows, above or below it in narrow ones, where only one is open at a time. */
export function SidePanel({ title, opensFrom, children, ...rest }: {
  title: string;
  /** Window width from which it is open by default; if absent, it is closed by default. */
  opensFrom?: string;
  class?: string;
  children: ComponentChildren;
}): JSX.Element {
  const isWide = useMedia("(min-width: 60rem)");
  const opens = useMedia(opensFrom === undefined ? "not all" : `(min-width: ${opensFrom})`);
  const panel = useRef<HTMLDetailsElement>(null);
  // Set by an effect rather than as a property, because the browser itself closes a panel when another of the same name
  // opens.
  useLayoutEffect(() => {
    panel.current!.open = opens;
  }, [opens, isWide]);
  return (
    <details
      ref={panel}
      class={`side ${rest.class ?? ""}`}
      {...(!isWide && { name: "panel" })}
    >
      <summary>{title}</summary>
      {children}
    </details>
  );
}

/** Human-readable milliseconds. */
export function formatMs(ms: number): string {
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}

/** Copies text. This also works on pages served over plain `http://`, where browsers offer no `navigator.clipboard`. */
export async function copyText(text: string): Promise<void> {
  if (navigator.clipboard !== undefined) return await navigator.clipboard.writeText(text);
  const focused = document.activeElement as HTMLElement | null;
  const field = document.createElement("textarea");
  field.value = text;
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
  focused?.focus();
}

/**
 * Copies a PNG image.
 *
 * @throws {Error} with the reason, when the browser cannot copy images.
 */
export async function copyImage(image: Blob): Promise<void> {
  if (navigator.clipboard?.write === undefined) {
    throw new Error("Browsers allow copying images only on https:// pages and localhost");
  }
  await navigator.clipboard.write([new ClipboardItem({ "image/png": image })]);
}

/** The value of the colour property `name` at `element`, in the current colour scheme. */
export function readColour(element: Element, name: string): string {
  const probe = document.createElement("i");
  probe.style.color = `var(${name})`;
  element.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}
