/**
 * Small components and hooks that several pages share, and the clipboard.
 *
 * @module
 */
import type { AllHTMLAttributes, ButtonHTMLAttributes, ComponentChildren, JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

/** An error message, announced by screen readers. */
export function Failure({ message }: { message: string | undefined }): JSX.Element | null {
  if (message === undefined || message === "") return null;
  return <p class="failure" role="alert">{message}</p>;
}

/** A button without a border. Its properties are attributes of the button. */
export function QuietButton(attributes: ButtonHTMLAttributes): JSX.Element {
  return <button type="button" class="quiet" {...attributes} />;
}

/** Says what has happened, with a button that undoes it. */
export function Notice({ text, action, onClick }: {
  text: string;
  action: string;
  onClick: () => void;
}): JSX.Element {
  return (
    <p class="soft" role="status">
      {text} <QuietButton onClick={onClick}>{action}</QuietButton>
    </p>
  );
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

/** Whether the window matches a media query. The calling component renders again when that changes. */
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

/** A panel beside the page in wide windows. In narrow ones it is above or below, and only one panel can be open. */
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

/** Formats a duration: `850 ms`, `1.2 s`. */
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

/** Computes the value of the colour property `name` at `element`, in the current colour scheme. */
export function readColour(element: Element, name: string): string {
  const probe = document.createElement("i");
  probe.style.color = `var(${name})`;
  element.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}
