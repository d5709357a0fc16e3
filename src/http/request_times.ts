/**
 * Where a request's time went, for its line in the log and for its spans.
 *
 * @module
 */
import { context, propagation, SpanKind, SpanStatusCode, trace } from "@opentelemetry/api";
import type { Work } from "../session/work_times.ts";

/** Seconds and tokens of the model's work, as fields of a log line. `readSeconds` is the time until it began. */
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

/** A request that has ended. */
export interface EndedRequest {
  readonly request: Request;
  readonly route: string;
  readonly status: number;
  readonly startMs: number;
  readonly work: Work | undefined;
}

/**
 * Hands a request's spans to OpenTelemetry, below the one that its `traceparent` names: itself, and what the model did.
 * Nothing happens where Deno's exporter is off. Of what was asked and answered the spans hold nothing.
 */
export function recordSpans({ request, route, status, startMs, work }: EndedRequest): void {
  const tracer = trace.getTracer("hearth");
  const headers = Object.fromEntries(request.headers);
  const parent = propagation.extract(context.active(), headers);
  const span = tracer.startSpan(`${request.method} ${route}`, {
    kind: SpanKind.SERVER,
    startTime: toEpoch(startMs),
    attributes: {
      "http.request.method": request.method,
      "http.route": route,
      "http.response.status_code": status,
    },
  }, parent);
  if (status >= 500) span.setStatus({ code: SpanStatusCode.ERROR });
  const below = trace.setSpan(parent, span);
  for (const { name, fromMs, toMs, attributes = {} } of phasesOf(work, startMs)) {
    tracer.startSpan(name, { startTime: toEpoch(fromMs), attributes }, below).end(toEpoch(toMs));
  }
  span.end();
}

interface Phase {
  readonly name: string;
  readonly fromMs: number;
  readonly toMs: number;
  readonly attributes?: Record<string, number>;
}

function phasesOf(work: Work | undefined, startMs: number): Phase[] {
  if (work === undefined) return [];
  const { startedAtMs, endedAtMs, times, usage } = work;
  const read: Phase = { name: "read", fromMs: startMs, toMs: startedAtMs };
  if (times === undefined || usage === undefined) {
    return [read, { name: "work", fromMs: startedAtMs, toMs: endedAtMs }];
  }
  // Told by the model's thread as durations: they are laid out from the end backwards.
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
