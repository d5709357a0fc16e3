/**
 * The whole page: waits for the model, asks for the API key if the server wants one, then shows the page for the
 * model's kind, or the live figures.
 *
 * @module
 */
import { type ComponentType, type JSX, render } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { ChatPage } from "./chat/chat_page.tsx";
import { TextField } from "./controls.tsx";
import { useDroppedFiles } from "./files.tsx";
import { EmbeddingPage } from "./embedding_page.tsx";
import { type History, KEPT_SECONDS, LivePage, parseMetrics } from "./live_page.tsx";
import { MattingPage } from "./matting_page.tsx";
import { OcrPage } from "./ocr_page.tsx";
import { RerankPage } from "./rerank_page.tsx";
import {
  call,
  hasApiKey,
  type ListedModel,
  listModels,
  type PageProps,
  type ServerError,
  type ServerInfo,
  setApiKey,
} from "./server.ts";
import { SpeechPage } from "./speech_page.tsx";
import { TranscriptionPage } from "./transcription_page.tsx";

const POLL_MS = 400;

const PAGES: Record<ServerInfo["kind"], { title: string; Page: ComponentType<PageProps> }> = {
  text: { title: "Chat", Page: ChatPage },
  vision: { title: "Chat", Page: ChatPage },
  ocr: { title: "OCR", Page: OcrPage },
  asr: { title: "Transcription", Page: TranscriptionPage },
  tts: { title: "Speech", Page: SpeechPage },
  matting: { title: "Background", Page: MattingPage },
  embedding: { title: "Embeddings", Page: EmbeddingPage },
  rerank: { title: "Re-ranking", Page: RerankPage },
};

type State =
  | { readonly phase: "waiting"; readonly message: string }
  | { readonly phase: "key"; readonly message: string }
  /** The chosen one of several models cannot be loaded. */
  | { readonly phase: "failed"; readonly message: string; readonly models: readonly ListedModel[] }
  | { readonly phase: "ready"; readonly info: ServerInfo; readonly models: readonly ListedModel[] };

function App(): JSX.Element {
  const [state, setState] = useState<State>({ phase: "waiting", message: "Connecting …" });
  const [attempt, setAttempt] = useState(0);
  useEffect(() => {
    let isUnmounted = false;
    const look = async () => {
      const next = await findState((message) => {
        if (!isUnmounted) setState({ phase: "waiting", message });
      });
      if (isUnmounted) return;
      setState(next);
      if (next.phase === "waiting") setTimeout(look, POLL_MS);
    };
    look();
    return () => {
      isUnmounted = true;
    };
  }, [attempt]);

  const choose = (id: string) => {
    rememberModel(id);
    setAttempt(attempt + 1);
  };
  if (state.phase === "ready") return <Shell {...state} onModel={choose} />;
  return (
    <main class="centre">
      <Logo />
      {state.phase === "key"
        ? <KeyForm message={state.message} onKey={() => setAttempt(attempt + 1)} />
        : <Waiting message={state.message} />}
      {state.phase === "failed" && (
        <>
          <ModelPicker models={state.models} chosen={undefined} onModel={choose} />
          <button type="button" onClick={() => setAttempt(attempt + 1)}>Try again</button>
        </>
      )}
    </main>
  );
}

async function findState(report: (message: string) => void): Promise<State> {
  let models: readonly ListedModel[] = [];
  try {
    await call("health");
    models = await listModels();
    const chosen = chooseModel(models);
    if (chosen !== undefined) report(`loading ${chosen.id} …`);
    const query = chosen === undefined ? "" : `?model=${encodeURIComponent(chosen.id)}`;
    const info = await (await call(`info${query}`)).json() as ServerInfo;
    document.title = `${info.id} · Hearth`;
    // Lists the models again: only now may it be known which model is loaded, and of which kind it is.
    return { phase: "ready", info, models: chosen === undefined ? [] : await listModels() };
  } catch (error) {
    const { status, message } = error as ServerError;
    if (status === 401) return { phase: "key", message };
    return models.length > 0 ? { phase: "failed", message, models } : { phase: "waiting", message };
  }
}

function Logo(): JSX.Element {
  return (
    <span class="logo">
      <i aria-hidden="true" />Hearth
    </span>
  );
}

/** Shows the progress of loading, or why it failed. */
function Waiting({ message }: { message: string }): JSX.Element {
  const percent = message.match(/(\d+)%/)?.[1];
  const isLoading = /^(loading|Connecting)|not initialized yet/.test(message);
  return (
    <section aria-live="polite">
      <h1>{isLoading ? "The model is loading" : "The model is not available"}</h1>
      <p class="soft">{message}</p>
      {isLoading && (
        <progress
          aria-label="Loading progress"
          {...(percent !== undefined && { value: Number(percent), max: 100 })}
        />
      )}
    </section>
  );
}

function KeyForm({ message, onKey }: { message: string; onKey: () => void }): JSX.Element {
  const [key, setKey] = useState("");
  const submit = (event: Event) => {
    event.preventDefault();
    setApiKey(key);
    onKey();
  };
  return (
    <form onSubmit={submit}>
      <h1>API key</h1>
      <p class="soft">
        {hasApiKey() ? message : "This server requires an API key."}{" "}
        The key is kept in this page's memory until you leave.
      </p>
      <TextField
        label="Key"
        type="password"
        autocomplete="off"
        required
        value={key}
        onInput={setKey}
      />
      <button type="submit" class="main">Continue</button>
    </form>
  );
}

function Shell(
  { info, models, onModel }: PageProps & { onModel: (id: string) => void },
): JSX.Element {
  const [isLive, setIsLive] = useState(false);
  const history = useMetricsHistory();
  // Without this, the browser would open a dropped file that no page takes.
  useDroppedFiles(() => {});
  const { title, Page } = PAGES[info.kind];
  // The page is memoized so that it is not rendered again when metrics arrive.
  const page = useMemo(() => <Page info={info} models={models} />, [info, models]);
  const where = info.device === "webgpu" ? "GPU" : "CPU";
  return (
    <>
      <header>
        <Logo />
        <nav aria-label="Pages">
          <button type="button" aria-pressed={!isLive} onClick={() => setIsLive(false)}>
            {title}
          </button>
          <button type="button" aria-pressed={isLive} onClick={() => setIsLive(true)}>
            Live figures
          </button>
        </nav>
        <p class="model" title={info.adapter}>
          {models.length > 1
            ? <ModelPicker models={models} chosen={info.id} onModel={onModel} />
            : <strong>{info.id}</strong>}
          <span class="chip">{info.dtype} · {where}</span>
          {info.context_length !== null && (
            <span class="chip">{info.context_length.toLocaleString("en")} tokens</span>
          )}
        </p>
      </header>
      <div class="page" hidden={isLive}>
        {page}
      </div>
      {isLive && <LivePage info={info} history={history} />}
    </>
  );
}

const SCRAPE_EVERY_MS = 1000;

/** Reads the metrics every second while the page is visible, and keeps those of the last five minutes. */
function useMetricsHistory(): History {
  const [moments, setMoments] = useState<History["moments"]>([]);
  const [failure, setFailure] = useState<string>();
  useEffect(() => {
    const controller = new AbortController();
    const { signal } = controller;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const scrape = async () => {
      try {
        if (!document.hidden) {
          const text = await (await call("metrics", { signal })).text();
          const seconds = Date.now() / 1000;
          setMoments((before) => [
            ...before.filter((each) => each.seconds > seconds - KEPT_SECONDS),
            { seconds, scrape: parseMetrics(text) },
          ]);
          setFailure(undefined);
        }
      } catch (error) {
        if (!signal.aborted) setFailure((error as Error).message);
      }
      if (!signal.aborted) timer = setTimeout(scrape, SCRAPE_EVERY_MS);
    };
    scrape();
    return () => {
      clearTimeout(timer);
      controller.abort();
    };
  }, []);
  return { moments, failure };
}

const CHOSEN_KEY = "hearth.model";

/** Chooses the model to show first: the last one chosen, else one that chats; loaded ones are preferred. */
function chooseModel(models: readonly ListedModel[]): ListedModel | undefined {
  const last = localStorage.getItem(CHOSEN_KEY);
  const rank = ({ id, kind, status }: ListedModel) =>
    (id === last ? 4 : 0) + (kind === "text" || kind === "vision" ? 2 : 0) +
    (status.value === "loaded" ? 1 : 0);
  return models.toSorted((a, b) => rank(b) - rank(a))[0];
}

/** Remembers the model to show first. */
function rememberModel(id: string): void {
  localStorage.setItem(CHOSEN_KEY, id);
}

function ModelPicker({ models, chosen, onModel }: {
  models: readonly ListedModel[];
  chosen: string | undefined;
  onModel: (id: string) => void;
}): JSX.Element {
  return (
    <select
      aria-label="Model"
      value={chosen ?? ""}
      onChange={(event) => onModel(event.currentTarget.value)}
    >
      {chosen === undefined && <option value="" disabled>Choose another model</option>}
      {models.map(({ id, kind, status }) => (
        <option key={id} value={id}>
          {id}
          {kind !== undefined && ` (${kind})`}
          {status.failed && ": did not load"}
        </option>
      ))}
    </select>
  );
}

render(<App />, document.getElementById("app")!);
