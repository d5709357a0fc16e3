/**
 * Timings of requests, for log lines and for spans, and the exporter that sends spans to an OpenTelemetry collector:
 * OTLP over HTTP, as JSON. Deno's own exporter works only if `OTEL_DENO=true` is set before the process starts. This
 * one only needs the collector's address.
 *
 * @module
 */
import { log } from "../../base/log.ts";
import { VERSION } from "../../base/config.ts";
import { randomBytes } from "node:crypto";
import type { Work } from "../session/task_stream.ts";

/** A span. Its times are in milliseconds since 1970. */
export interface Span {
  /** Trace id: 32 hexadecimal digits. */
  readonly traceId: string;
  /** Span id: 16 hexadecimal digits. */
  readonly spanId: string;
  readonly parentSpanId?: string | undefined;
  readonly name: string;
  readonly kind: "server" | "internal";
  readonly fromMs: number;
  readonly toMs: number;
  readonly attributes: Readonly<Record<string, string | number>>;
  readonly isError?: boolean;
}

/** Maximum number of spans that wait to be sent; further ones are dropped. */
const MAX_WAITING = 2048;
const DEFAULT_DELAY_MS = 5_000;
const TIMEOUT_MS = 10_000;
const KINDS = { internal: 1, server: 2 } as const;
const ERROR_STATUS = 2;

/** The collector's address, and the attributes that all spans have. */
interface ExporterSettings {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly resource: Readonly<Record<string, string>>;
  readonly delayMs: number;
}

/** Sends spans in batches, every few seconds. */
export class OtlpExporter {
  readonly #settings: ExporterSettings;
  #waiting: Span[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isFailing = false;

  constructor(settings: ExporterSettings) {
    this.#settings = settings;
  }

  /** Creates an exporter configured by OpenTelemetry's environment variables; `undefined` if they name no collector. */
  static fromEnvironment(read: (name: string) => string | undefined): OtlpExporter | undefined {
    const base = read("OTEL_EXPORTER_OTLP_ENDPOINT");
    const url = read("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") ??
      (base && `${base.replace(/\/$/, "")}/v1/traces`);
    if (!url || /^true$/i.test(read("OTEL_SDK_DISABLED") ?? "")) return undefined;
    if (!URL.canParse(url)) {
      log.warn("no spans are sent: the collector's address is not a URL", { endpoint: url });
      return undefined;
    }
    const attributes = readPairs(read("OTEL_RESOURCE_ATTRIBUTES"));
    const name = read("OTEL_SERVICE_NAME") ?? attributes["service.name"] ?? "hearth";
    return new OtlpExporter({
      url,
      headers: readPairs(
        read("OTEL_EXPORTER_OTLP_TRACES_HEADERS") ?? read("OTEL_EXPORTER_OTLP_HEADERS"),
      ),
      resource: { ...attributes, "service.name": name, "service.version": VERSION },
      delayMs: Number(read("OTEL_BSP_SCHEDULE_DELAY") ?? DEFAULT_DELAY_MS) || DEFAULT_DELAY_MS,
    });
  }

  add(spans: readonly Span[]): void {
    this.#waiting.push(...spans.slice(0, MAX_WAITING - this.#waiting.length));
    this.#timer ??= setTimeout(() => this.flush(), this.#settings.delayMs);
  }

  /**
   * Sends the waiting spans. Never throws: spans that cannot be sent are lost. Of several failures in a row, only the
   * first is logged.
   */
  async flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const spans = this.#waiting;
    this.#waiting = [];
    if (spans.length === 0) return;
    const { url, headers } = this.#settings;
    try {
      const response = await fetch(url, {
        method: "POST",
        headers: { ...headers, "content-type": "application/json" },
        body: JSON.stringify(this.#makeMessage(spans)),
        signal: AbortSignal.timeout(TIMEOUT_MS),
      });
      await response.body?.cancel();
      if (!response.ok) throw new Error(`the collector answered ${response.status}`);
      this.#isFailing = false;
    } catch (error) {
      if (!this.#isFailing) {
        log.warn("spans could not be sent to the collector", { reason: (error as Error).message });
      }
      this.#isFailing = true;
    }
  }

  #makeMessage(spans: readonly Span[]): unknown {
    return {
      resourceSpans: [{
        resource: { attributes: toAttributes(this.#settings.resource) },
        scopeSpans: [{ scope: { name: "hearth", version: VERSION }, spans: spans.map(toSpan) }],
      }],
    };
  }
}

function toSpan({ kind, fromMs, toMs, attributes, isError, ...span }: Span): unknown {
  return {
    ...span,
    kind: KINDS[kind],
    startTimeUnixNano: toNanoseconds(fromMs),
    endTimeUnixNano: toNanoseconds(toMs),
    attributes: toAttributes(attributes),
    ...(isError && { status: { code: ERROR_STATUS } }),
  };
}

function toAttributes(values: Readonly<Record<string, string | number>>): unknown[] {
  return Object.entries(values).map(([key, value]) => ({
    key,
    value: typeof value === "number" ? { intValue: String(value) } : { stringValue: value },
  }));
}

/** Converts milliseconds to nanoseconds, written as text, because a double cannot hold them exactly. */
function toNanoseconds(ms: number): string {
  return String(BigInt(Math.round(ms * 1000)) * 1000n);
}

/** Parses `a=1,b=2` with percent-encoded values. */
function readPairs(text = ""): Record<string, string> {
  return Object.fromEntries(
    text.split(",").filter((pair) => pair.includes("=")).map((pair) => {
      const [name = "", ...rest] = pair.split("=");
      return [name.trim(), decode(rest.join("=").trim())];
    }),
  );
}

function decode(value: string): string {
  try {
    return decodeURIComponent(value);
  } catch {
    return value;
  }
}

/**
 * Makes the log fields about the model's work, in seconds and tokens. `readSeconds` is the time from the request's
 * start until the task was sent to the model.
 */
export function makeWorkFields(work: Work | undefined, startMs: number): Record<string, unknown> {
  if (work === undefined) return {};
  const { times, usage } = work;
  return {
    readSeconds: inSeconds(work.startedAtMs - startMs),
    workSeconds: inSeconds(work.endedAtMs - work.startedAtMs),
    ...(times && {
      queueSeconds: inSeconds(times.queueMs),
      prefillSeconds: inSeconds(times.prefillMs),
      decodeSeconds: inSeconds(times.decodeMs),
    }),
    ...(usage && {
      promptTokens: usage.promptTokens,
      cachedTokens: usage.cachedTokens,
      completionTokens: usage.completionTokens,
    }),
  };
}

function inSeconds(ms: number): number {
  return Number((ms / 1000).toFixed(3));
}

interface TracedRequest {
  readonly request: Request;
  readonly route: string;
  readonly status: number;
  readonly startMs: number;
  readonly work: Work | undefined;
}

/**
 * Builds the spans of a request: one for the whole request, and its children for the phases of the model's work. The
 * parent is the span that the header `traceparent` names (W3C Trace Context). There are none if the caller's trace is
 * not sampled. Spans never hold content of the request or the response.
 */
export function toSpans({ request, route, status, startMs, work }: TracedRequest): Span[] {
  const header = request.headers.get("traceparent") ?? "";
  const [, traceId, parentSpanId, flags] =
    /^[\da-f]{2}-([\da-f]{32})-([\da-f]{16})-([\da-f]{2})\b/.exec(header) ?? [];
  if (flags !== undefined && (parseInt(flags, 16) & 1) === 0) return [];
  const whole: Span = {
    traceId: traceId ?? randomBytes(16).toString("hex"),
    spanId: newSpanId(),
    parentSpanId,
    name: `${request.method} ${route}`,
    kind: "server",
    fromMs: toEpoch(startMs),
    toMs: toEpoch(performance.now()),
    attributes: {
      "http.request.method": request.method,
      "http.route": route,
      "http.response.status_code": status,
    },
    isError: status >= 500,
  };
  const phases = toPhases(work, startMs).map(({ name, fromMs, toMs, attributes = {} }): Span => ({
    traceId: whole.traceId,
    spanId: newSpanId(),
    parentSpanId: whole.spanId,
    name,
    kind: "internal",
    fromMs: toEpoch(fromMs),
    toMs: toEpoch(toMs),
    attributes,
  }));
  return [whole, ...phases];
}

function newSpanId(): string {
  return randomBytes(8).toString("hex");
}

interface Phase {
  readonly name: string;
  readonly fromMs: number;
  readonly toMs: number;
  readonly attributes?: Record<string, number>;
}

function toPhases(work: Work | undefined, startMs: number): Phase[] {
  if (work === undefined) return [];
  const { startedAtMs, endedAtMs, times, usage } = work;
  const read: Phase = { name: "read", fromMs: startMs, toMs: startedAtMs };
  if (times === undefined || usage === undefined) {
    return [read, { name: "work", fromMs: startedAtMs, toMs: endedAtMs }];
  }
  // The worker reports only durations, so the phases are laid out backwards from the end.
  const decodeMs = endedAtMs - times.decodeMs;
  const prefillMs = decodeMs - times.prefillMs;
  const queueMs = prefillMs - times.queueMs;
  return [
    read,
    { name: "queue", fromMs: queueMs, toMs: prefillMs },
    {
      name: "prefill",
      fromMs: prefillMs,
      toMs: decodeMs,
      attributes: {
        "gen_ai.usage.input_tokens": usage.promptTokens,
        "hearth.cached_tokens": usage.cachedTokens,
      },
    },
    {
      name: "decode",
      fromMs: decodeMs,
      toMs: endedAtMs,
      attributes: { "gen_ai.usage.output_tokens": usage.completionTokens },
    },
  ];
}

function toEpoch(ms: number): number {
  return performance.timeOrigin + ms;
}
