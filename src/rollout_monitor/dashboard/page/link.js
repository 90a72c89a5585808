// The connection to the server: news in, commands out. It says within two seconds that it is lost, and heals by itself.

const SILENCE_MS = 1400; // the server says something twice a second
const GIVE_UP_MS = 5000; // silent for longer, the connection is made anew
const CHECK_MS = 200;
const RETRY_MS = 800;
const ASK_MS = 2000;

export class Link {
  /** `on` has hello(message), news(robots), picture(about, blob), state("open" | "lost" | "closed"). */
  constructor(on) {
    this.on = on;
    this.socket = null;
    this.heard = 0;
    this.silentChecks = 0;
    this.greeted = false;
    this.state = "lost";
    this.open = new Map();
    this.number = 0;
    setInterval(() => this.check(), CHECK_MS);
  }

  /** Connect, or ask for the token first where one is needed; tries again until it works. */
  async connect() {
    clearTimeout(this.retry);
    let answer;
    try {
      answer = await (await fetch("/api/session", { signal: AbortSignal.timeout(ASK_MS) })).json();
    } catch {
      this.again();
      return;
    }
    if (!answer.open) {
      this.become("closed");
      return;
    }
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const socket = new WebSocket(`${scheme}://${location.host}/live`);
    socket.binaryType = "arraybuffer";
    this.socket = socket;
    this.greeted = false;
    this.heard = performance.now();
    socket.onmessage = (event) => socket === this.socket && this.receive(event.data);
    socket.onclose = () => socket === this.socket && this.drop();
  }

  /** Ask for something; resolves to {fine, words} in any case. */
  ask(command) {
    return new Promise((resolve) => {
      if (!this.greeted) {
        resolve({ fine: false, words: "not connected: nothing was sent" });
        return;
      }
      const id = ++this.number;
      this.open.set(id, resolve);
      this.socket.send(JSON.stringify({ ...command, id }));
    });
  }

  /** Tell the server something that needs no answer. */
  tell(message) {
    if (this.greeted) this.socket.send(JSON.stringify(message));
  }

  receive(data) {
    this.heard = performance.now();
    if (this.greeted) this.become("open");
    if (data instanceof ArrayBuffer) {
      const length = new DataView(data).getUint16(0);
      const about = JSON.parse(new TextDecoder().decode(new Uint8Array(data, 2, length)));
      this.on.picture(about, new Blob([new Uint8Array(data, 2 + length)], { type: about.kind }));
      return;
    }
    const message = JSON.parse(data);
    if (message.type === "hello") {
      this.greeted = true;
      this.become("open");
      this.on.hello(message);
    } else if (message.type === "news") {
      this.on.news(message.robots);
    } else if (message.type === "answer") {
      this.open.get(message.id)?.(message);
      this.open.delete(message.id);
    }
  }

  /** Twice, because a page that was kept from running has messages waiting that the first look does not know of. */
  check() {
    const silence = performance.now() - this.heard;
    this.silentChecks = this.socket && silence > SILENCE_MS ? this.silentChecks + 1 : 0;
    if (this.silentChecks < 2) return;
    if (silence > GIVE_UP_MS) this.drop();
    else this.become("lost");
  }

  drop() {
    const socket = this.socket;
    this.socket = null;
    this.greeted = false;
    socket?.close();
    for (const resolve of this.open.values()) {
      resolve({ fine: false, words: "the connection was lost before an answer came: look whether it happened" });
    }
    this.open.clear();
    this.again();
  }

  again() {
    this.become("lost");
    this.retry = setTimeout(() => this.connect(), RETRY_MS);
  }

  become(state) {
    if (this.state === state) return;
    this.state = state;
    this.on.state(state);
  }
}
