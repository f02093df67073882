// A worker for Windlass in plain Node (18 or later), without any package: open a session, claim, run, settle, renew.
//
//   URL=http://127.0.0.1:7878 node examples/worker.mjs          (TOKEN=wdl_… with the scope `work`, if there are tokens)
//
// The server decides retries and keeps the fences. If this process dies, its session expires and its tasks run again.

const API = `${process.env.URL ?? "http://127.0.0.1:7878"}/api/v1`;
const TTL = Number(process.env.TTL_SECONDS ?? 15);

const handlers = {
  shout: ({ text }) => text.toUpperCase(),
  nap: ({ seconds }, stop) => new Promise((done, failed) => {
    setTimeout(() => done(`slept ${seconds} s`), seconds * 1000);
    stop.addEventListener("abort", () => failed(stop.reason));
  }),
};
const text = { type: "object", properties: { text: { type: "string" } }, required: ["text"] };
const seconds = { type: "object", properties: { seconds: { type: "number" } }, required: ["seconds"] };

async function call(method, path, body) {
  const headers = { "Content-Type": "application/json" };
  if (process.env.TOKEN) headers.Authorization = `Bearer ${process.env.TOKEN}`;
  const answer = await fetch(API + path, { method, headers, body: body && JSON.stringify(body) });
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
  return answer.json();
}

await call("POST", "/manifest", {
  handlers: [{ name: "shout", parameters: text }, { name: "nap", parameters: seconds, options: { retries: 1 } }],
});
const about = { node: `node-js:${process.pid}`, handlers: Object.keys(handlers), ttl_seconds: TTL };
const { session, renew_seconds } = await call("POST", "/sessions", about);
console.log(`session ${session}`);

const running = new Map(); // The abort controller of each attempt, by task and fence.
const renewing = setInterval(async () => {
  try {
    const { cancel } = await call("POST", `/sessions/${session}/renew`);
    for (const { task, fence } of cancel) running.get(`${task}/${fence}`)?.abort(new Error("cancelled"));
  } catch (error) {
    if (String(error).includes("session_lost")) process.exit(1); // Others may already run our tasks.
  }
}, renew_seconds * 1000);

async function run({ task, fence, handler, args, timeout_seconds }) {
  const stop = new AbortController(), name = `${task}/${fence}`;
  const limit = timeout_seconds && setTimeout(() => stop.abort(new Error("timed out")), timeout_seconds * 1000);
  running.set(name, stop);
  try {
    return { task, fence, outcome: "completed", result: (await handlers[handler](args, stop.signal)) ?? null };
  } catch (error) {
    return { task, fence, outcome: "failed", error: { kind: error.name, message: error.message, traceback: error.stack } };
  } finally {
    clearTimeout(limit);
    running.delete(name);
  }
}

let leaving = false;
for (const signal of ["SIGTERM", "SIGINT"]) process.on(signal, () => (leaving = true));
while (!leaving) {
  const { tasks } = await call("POST", `/sessions/${session}/claim`, { limit: 4, wait_seconds: 5 });
  const ends = await Promise.all(tasks.map(run));
  if (ends.length) for (const { task, state, error } of (await call("POST", `/sessions/${session}/settle`, ends)).verdicts)
    console.log(`${task} ${state ?? error.code}`);
}
clearInterval(renewing);
await call("DELETE", `/sessions/${session}`); // Tasks that are still leased are released without using an attempt.
