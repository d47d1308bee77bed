// Requests of this page. The token is kept for this tab only, goes into one header, and only to where the page came from.

const KEY = "agent-worker-token";
const STARTS = "agent-worker status starts it again; this page then goes on by itself";
let askForCode = () => {};

export class Failure extends Error {
  constructor(status, { code = "", message = "the daemon does not answer", hint = "" } = {}) {
    super(message);
    Object.assign(this, { status, code, hint });
  }
}

export const whenSignedOut = (ask) => { askForCode = ask; };
export const signedIn = () => sessionStorage.getItem(KEY) !== null;

export async function signIn(code) {
  const { token } = await answered(await reached(fetch("/page/login", {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ code }),
  })));
  sessionStorage.setItem(KEY, token);
}

/** A response, whole or as a stream. 401 asks for a new code. */
export async function open(method, path, { body, headers = {}, signal } = {}) {
  const url = new URL(path, location.origin);
  if (url.origin !== location.origin) throw new Error(`not ours: ${url.origin}`);
  const all = { Authorization: `Bearer ${sessionStorage.getItem(KEY) ?? ""}`, ...headers };
  if (body !== undefined) all["Content-Type"] = "application/json";
  const response = await reached(fetch(url, { method, headers: all, body: body && JSON.stringify(body), signal }));
  if (response.status === 401) {
    sessionStorage.removeItem(KEY);
    askForCode();
  }
  return response;
}

export async function request(method, path, given = {}) {
  const inBody = method !== "GET" && method !== "DELETE";
  const query = inBody ? "" : new URLSearchParams(Object.entries(given)).toString();
  const target = query ? `${path}${path.includes("?") ? "&" : "?"}${query}` : path;
  return answered(await open(method, target, inBody ? { body: given } : {}));
}

/** That nobody answers is told like every other failure. */
const reached = (fetching) => fetching.catch((error) => { throw error instanceof TypeError ? new Failure(0, { hint: STARTS }) : error; });

async function answered(response) {
  const content = await response.json().catch(() => ({}));
  if (!response.ok) throw new Failure(response.status, content.error);
  return content;
}
