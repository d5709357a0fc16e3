/**
 * Timings of a request for its log line and its spans.
 *
 * @module
 */
import { randomBytes } from "node:crypto";
import type { Work } from "../session/task_stream.ts";
import type { Span } from "./otlp_exporter.ts";

/**
 * Log fields about the model's work, in seconds and tokens. `readSeconds` is the time from the request's start until
 * that work began.
 */
export function workFields(work: Work | undefined, startMs: number): Record<string, unknown> {
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

/** A finished request. */
interface EndedRequest {
  readonly request: Request;
  readonly route: string;
  readonly status: number;
  readonly startMs: number;
  readonly work: Work | undefined;
}

/**
 * Builds the spans of a request below the one that its `traceparent` names (W3C Trace Context): one for the request,
 * and those of the model's work. None if the caller's trace is not sampled. Spans never hold content of the request or
 * the answer.
 */
export function toSpans({ request, route, status, startMs, work }: EndedRequest): Span[] {
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
  // The model's thread reports only durations, so they are laid out backwards from the end.
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
