/**
 * Variables that Kubernetes and Docker set for a service that has a flag's name.
 *
 * @module
 */
import type { Environment } from "../base/config.ts";
import { log } from "../base/log.ts";
import { environmentName, type FlagTable } from "./command.ts";

/** Whether a value is the address of a service: a Service called hearth sets `HEARTH_PORT=tcp://10.0.0.1:80`. */
export function isServiceLink(value: string): boolean {
  return /^(tcp|udp|sctp):\/\//.test(value);
}

/** Logs each variable of a flag that is not used because it holds the address of a service. */
export function warnOfServiceLinks(flags: FlagTable, environment: Environment): void {
  for (const variable of Object.keys(flags).map(environmentName)) {
    const value = environment[variable];
    if (value === undefined || !isServiceLink(value)) continue;
    log.warn("a variable is ignored: it is the address of a service, not a setting", {
      variable,
      value,
      remedy: "set enableServiceLinks: false, or name the service otherwise",
    });
  }
}
