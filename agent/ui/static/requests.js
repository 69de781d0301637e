/* Requests to the server, and addresses of this page. The token comes with the address that the
terminal shows; it is kept for this tab only and taken out of the address. */
const KEY = "ingot-token";

export function takeToken() {
  const found = /^#token=(.+)$/.exec(location.hash);
  if (!found) return;
  sessionStorage.setItem(KEY, decodeURIComponent(found[1]));
  history.replaceState(null, "", `${location.pathname}#/`);
}

export function address(page, id = "", query = {}) {
  const asked = new URLSearchParams(query).toString();
  return `#/${page}${id ? `/${encodeURIComponent(id)}` : ""}${asked ? `?${asked}` : ""}`;
}

/* A request that was refused: `told` is {where, problem, hint}. */
export class RequestError extends Error {
  constructor(status, told) {
    super([told.where, told.problem].filter(Boolean).join(": "));
    this.status = status;
    this.told = told;
  }
}

async function request(path, body) {
  const headers = { Authorization: `Bearer ${sessionStorage.getItem(KEY) ?? ""}` };
  const asked = body === undefined ? { headers }
    : { headers, method: "POST", body: JSON.stringify(body) };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let told = { where: "", problem: "the server does not answer", hint: "is ingot ui running?" };
  let answer = null;
  try {
    answer = await fetch(path, asked);
    if (answer.ok) return answer;
    told = { where: "", problem: `${answer.status} ${answer.statusText}`, hint: "" };
    told = (await answer.json()).error ?? told;
  } catch {
    // the server is gone, or its answer is no JSON: `told` says what is known
  }
  throw new RequestError(answer?.status ?? 0, told);
}

export async function get(path, query = {}) {
  const asked = new URLSearchParams(query).toString();
  return (await request(asked ? `${path}?${asked}` : path)).json();
}

export async function post(path, body) {
  return (await request(path, body)).json();
}

/* Ask for a stream of events; `on[name](data)` hears them, what `done` carries is returned. */
export async function stream(path, body, on = {}) {
  const reader = (await request(path, body)).body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read().catch(() => ({ done: true }));
    const events = (rest + (value ?? "")).split("\n\n");
    rest = events.pop();
    for (const event of events) {
      const [, name, data] = /^event: (.*)\ndata: (.*)$/s.exec(event) ?? [];
      const told = data === undefined ? null : JSON.parse(data);
      if (name === "done") return told;
      if (name === "error") throw new RequestError(200, told.error);
      on[name]?.(told);
    }
    if (done) throw new RequestError(0, { problem: "the server ended its answer", hint: "" });
  }
}

/* Open the page of a conversation that a stream has answered; it need not ask for it again. */
export function openConversation(view) {
  openConversation.view = view;
  location.hash = address("onboard", view.id);
}
