/**
 * Reports the start of a server: on standard output, in the log with `--log-format json`, or to the router that started
 * it.
 *
 * @module
 */
import { type LogFormat, PROGRAM, type ResolvedModel, VERSION } from "../base/config.ts";
import { DEFAULT_MODEL } from "../hub/catalogue.ts";
import { log, stderrQueue } from "../base/log.ts";
import type { ModelInfo } from "../worker/protocol.ts";
import { printMessage } from "./print.ts";
import { type ChildReport, ROUTER_VARIABLE } from "../router/routed_model.ts";
import type { Session } from "../server/session/session.ts";

/** Reports on one server. */
export class StartReport {
  readonly #format: LogFormat;
  readonly #url: string;
  #wasReady = false;

  constructor(options: { format: LogFormat; url: string }) {
    this.#format = options.format;
    this.#url = options.url;
  }

  /** Reports that the port is open. `isNamed` tells whether the user named the model. */
  listening(model: Pick<ResolvedModel, "id">, { isNamed }: { isNamed: boolean }): void {
    if (this.#format === "json") {
      log.info("listening", { version: VERSION, url: this.#url, model: model.id });
      return;
    }
    printMessage(`Hearth ${VERSION} listens at ${this.#url} and is loading ${model.id}.`);
    if (isNamed) return;
    printMessage(
      `No model was named, so the server uses the built-in ${DEFAULT_MODEL}, a toy to try Hearth with. ` +
        `A real one: ${PROGRAM} -m qwen3-0.6b`,
    );
  }

  /** Reports that the model cannot be loaded. Comes after the log line about it, for readers of the last line. */
  failed(reason: string): void {
    if (this.#format === "json") return;
    const end = /[.!?)]$/.test(reason) ? "" : ".";
    stderrQueue.push(
      `hearth: ${reason}${end} The server stays up and answers with 503. Stop it with Ctrl-C, and start it ` +
        "again once the problem is fixed.\n",
    );
  }

  /** Reports that the model is ready, `elapsedMs` after the process began, or ready again after its device was lost. */
  ready(info: ModelInfo, elapsedMs: number): void {
    if (this.#wasReady) return log.info("the model is ready again", { model: info.id });
    this.#wasReady = true;
    const seconds = Number((elapsedMs / 1000).toFixed(2));
    if (this.#format === "json") {
      const { id: model, kind, dtype, backend, adapter, contextLength, maxModelLength } = info;
      const loaded = { model, kind, dtype, backend, adapter, contextLength, maxModelLength };
      return log.info("ready", { ...loaded, url: this.#url, secondsToReady: seconds });
    }
    const rows = [
      ["model", info.id],
      ["kind", info.kind],
      ["dtype", info.dtype],
      ["adapter", `${info.backend}, ${info.adapter}`],
      ...(info.contextLength === undefined ? [] : [["context", describeContext(info)]]),
      ["address", this.#url],
      ["ready in", `${seconds} s`],
    ];
    for (const [name = "", value] of rows) printMessage(`  ${name.padEnd(9)}${value}`);
  }
}

/** Describes the context length that is served, and the model's own if that is longer. */
function describeContext({ contextLength, maxModelLength = contextLength }: ModelInfo): string {
  const isShorter = maxModelLength! < contextLength!;
  return `${maxModelLength} tokens${isShorter ? ` of the model's ${contextLength}` : ""}`;
}

/** Tells the router about the model's state, and learns from it when to stop. */
export class RouterLink {
  private constructor() {}

  /** Returns `undefined` for a server that was not started by a router. */
  static find(): RouterLink | undefined {
    return Deno.env.get(ROUTER_VARIABLE) === undefined ? undefined : new RouterLink();
  }

  /** Calls `listener` when the router closes its end of standard input, or was killed. */
  onEnd(listener: () => void): void {
    Deno.stdin.readable.pipeTo(new WritableStream()).then(listener, listener);
  }

  report(report: ChildReport): void {
    printMessage(JSON.stringify(report));
  }

  /** Reports when the model is ready. If it cannot be loaded, at first or again, reports why and calls `onFailed`. */
  follow(session: Session, onFailed: () => void): void {
    const look = () => {
      const { state } = session;
      if (state.phase === "ready") {
        const { kind, contextLength, maxModelLength = contextLength } = state.info;
        this.report({ type: "ready", kind, contextLength: maxModelLength });
      }
      if (state.phase !== "failed") return;
      this.report({ type: "failed", reason: state.reason });
      onFailed();
    };
    session.onStateChange(look);
    look();
  }
}
