/**
 * The command-line agents of docs/tools.md: the configuration and call of each, and its tool that reads a file.
 *
 * @module
 */

/** The server and the model for an agent. */
export interface Where {
  /** Address of the server, without `/v1`. */
  readonly base: string;
  readonly model: string;
}

/** One agent. */
export interface CliAgent {
  /** The agent's package on npm, with the version that was tested last. */
  readonly package: string;
  /** The agent's executable. */
  readonly program: string;
  /** Arguments of the agent's runs, in order: the last run sends the prompt. */
  arguments(where: Where, prompt: string): readonly (readonly string[])[];
  readonly environment?: (where: Where) => Readonly<Record<string, string>>;
  /** Files in the agent's home directory, by path. */
  readonly files?: (where: Where) => Readonly<Record<string, unknown>>;
  /** The name of the agent's tool that reads a file. */
  readonly tool: string;
  readonly toolArguments: (file: string) => Readonly<Record<string, unknown>>;
}

/** Tokens of the context, for agents that do not query it. */
const CONTEXT = 131_072;

const withV1 = ({ base }: Where) => `${base}/v1`;

/** All tested agents. */
export const CLI_AGENTS: readonly CliAgent[] = [
  {
    package: "@anthropic-ai/claude-code@2.1.332",
    program: "claude",
    arguments: (_, prompt) => [["-p", prompt]],
    environment: ({ base, model }) => ({
      ANTHROPIC_BASE_URL: base,
      ANTHROPIC_AUTH_TOKEN: "none",
      ANTHROPIC_MODEL: model,
      CLAUDE_CODE_MAX_CONTEXT_TOKENS: `${CONTEXT}`,
    }),
    tool: "Read",
    toolArguments: (file) => ({ file_path: file }),
  },
  {
    package: "@openai/codex@0.171.0",
    program: "codex",
    arguments: (where, prompt) => {
      const provider = `{name="Hearth", base_url="${withV1(where)}", wire_api="responses"}`;
      const settings = [
        "model_provider=hearth",
        `model=${where.model}`,
        `model_providers.hearth=${provider}`,
      ].flatMap((setting) => ["-c", setting]);
      // Codex's sandbox needs permissions that containers lack.
      const options = ["--skip-git-repo-check", "--sandbox", "danger-full-access"];
      return [["exec", ...options, ...settings, prompt]];
    },
    tool: "exec_command",
    toolArguments: (file) => ({ cmd: `cat ${file}` }),
  },
  {
    package: "@qwen-code/qwen-code@0.24.4",
    program: "qwen",
    arguments: (_, prompt) => [["--auth-type", "openai", "-p", prompt]],
    environment: (where) => ({
      OPENAI_BASE_URL: withV1(where),
      OPENAI_API_KEY: "none",
      OPENAI_MODEL: where.model,
    }),
    tool: "read_file",
    toolArguments: (file) => ({ file_path: file }),
  },
  {
    package: "@github/copilot@1.0.102",
    program: "copilot",
    arguments: (_, prompt) => [["--allow-all-tools", "-p", prompt]],
    environment: (where) => ({
      COPILOT_OFFLINE: "true",
      COPILOT_PROVIDER_BASE_URL: withV1(where),
      COPILOT_MODEL: where.model,
    }),
    tool: "view",
    toolArguments: (file) => ({ path: file }),
  },
  {
    package: "opencode-ai@1.18.33",
    program: "opencode",
    arguments: ({ model }, prompt) => [["run", "-m", `hearth/${model}`, prompt]],
    files: (where) => ({
      ".config/opencode/opencode.json": {
        provider: {
          hearth: {
            npm: "@ai-sdk/openai-compatible",
            options: { baseURL: withV1(where) },
            models: { [where.model]: { limit: { context: CONTEXT, output: 4096 } } },
          },
        },
      },
    }),
    tool: "read",
    toolArguments: (file) => ({ filePath: file }),
  },
  {
    package: "@continuedev/cli@1.5.47",
    program: "cn",
    arguments: (_, prompt) => [["--config", ".continue/hearth.yaml", "-p", prompt]],
    files: (where) => ({
      // JSON is valid YAML.
      ".continue/hearth.yaml": {
        name: "Hearth",
        version: "1.0.0",
        schema: "v1",
        models: [{
          name: where.model,
          provider: "openai",
          model: where.model,
          apiBase: withV1(where),
          apiKey: "none",
          roles: ["chat"],
          capabilities: ["tool_use"],
          defaultCompletionOptions: { contextLength: CONTEXT },
        }],
      },
    }),
    tool: "Read",
    toolArguments: (file) => ({ filepath: file }),
  },
  {
    package: "cline@3.0.65",
    program: "cline",
    arguments: (where, prompt) => [
      [
        ...["auth", "openai-compatible", "--apikey", "none"],
        ...["--baseurl", withV1(where), "--modelid", where.model],
      ],
      [prompt],
    ],
    // Otherwise Cline's daemon keeps running.
    environment: () => ({ CLINE_SESSION_BACKEND_MODE: "local" }),
    tool: "read_files",
    toolArguments: (file) => ({ files: [{ path: file }] }),
  },
  {
    package: "@mariozechner/pi-coding-agent@0.73.1",
    program: "pi",
    arguments: ({ model }, prompt) => [
      ["-p", "--offline", "--provider", "hearth", "--model", model, prompt],
    ],
    files: (where) => ({
      ".pi/agent/models.json": {
        providers: {
          hearth: {
            api: "openai-completions",
            baseUrl: withV1(where),
            apiKey: "none",
            models: [{ id: where.model, contextWindow: CONTEXT, maxTokens: 4096 }],
          },
        },
      },
    }),
    tool: "read",
    toolArguments: (file) => ({ path: file }),
  },
];
