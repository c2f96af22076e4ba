// Plays each stream from fragments of MP4 that come over a WebSocket, close to its newest image.

const LOOK_AGAIN_MS = 2000;
const BEHIND_SECONDS = 0.12; // how far playback stays behind the newest image
const FAR_BEHIND_SECONDS = 1.0; // from here on it jumps instead of hurrying
const KEEP_SECONDS = 10;

const query = window.location.search;
const players = new Map();

class Player {
  constructor(name) {
    this.name = name;
    const figure = document.getElementById("stream").content.cloneNode(true).firstElementChild;
    figure.dataset.stream = name;
    figure.querySelector("b").textContent = name;
    this.figure = figure;
    this.status = figure.querySelector("span");
    this.video = figure.querySelector("video");
    document.getElementById("streams").append(figure);
    this.connect();
  }

  connect() {
    this.status.textContent = "connecting";
    const address = new URL(`live/${encodeURIComponent(this.name)}${query}`, window.location.href);
    address.protocol = window.location.protocol === "https:" ? "wss:" : "ws:";
    this.socket = new WebSocket(address);
    this.socket.binaryType = "arraybuffer";
    this.socket.onmessage = (message) => this.receive(message.data);
    this.socket.onclose = (event) => this.lost(event.reason);
  }

  receive(data) {
    if (typeof data === "string") {
      this.begin(JSON.parse(data));
    } else {
      this.waiting.push(data);
      this.append();
    }
  }

  begin(format) {
    this.declared = format.declared_seconds;
    this.waiting = [];
    if (!window.MediaSource || !MediaSource.isTypeSupported(format.type)) {
      this.status.textContent = `this browser does not play ${format.type}`;
      this.socket.onclose = null;
      this.socket.close();
      return;
    }
    if (this.address) URL.revokeObjectURL(this.address);
    const media = new MediaSource();
    this.buffer = null;
    this.address = URL.createObjectURL(media);
    this.video.src = this.address;
    this.video.style.aspectRatio = `${format.width} / ${format.height}`;
    media.onsourceopen = () => {
      this.buffer = media.addSourceBuffer(format.type);
      this.buffer.onupdateend = () => this.appended();
      this.append();
    };
    this.status.textContent = `${format.width}x${format.height}`;
  }

  append() {
    if (!this.buffer || this.buffer.updating || !this.waiting.length) return;
    try {
      this.buffer.appendBuffer(this.waiting.shift());
    } catch (error) {
      this.status.textContent = error.message;
      this.socket.close(); // begin anew
    }
  }

  appended() {
    const { video, buffer } = this;
    if (buffer.buffered.length) {
      this.chase(buffer.buffered.end(buffer.buffered.length - 1) - this.declared);
      const old = video.currentTime - KEEP_SECONDS;
      if (!buffer.updating && old - buffer.buffered.start(0) > KEEP_SECONDS) {
        buffer.remove(buffer.buffered.start(0), old);
        return;
      }
    }
    this.append();
  }

  // Keep playback a little behind the newest image: jump when it is far off, else hurry or linger.
  chase(newest) {
    const { video } = this;
    const behind = newest - video.currentTime;
    if (behind > FAR_BEHIND_SECONDS || behind < -this.declared / 2) {
      video.currentTime = Math.max(newest - BEHIND_SECONDS, 0);
    } else {
      video.playbackRate = behind > 2 * BEHIND_SECONDS ? 1.1 : behind < BEHIND_SECONDS / 2 ? 0.9 : 1;
    }
    if (video.paused) video.play().catch(() => {}); // a browser that does not want to plays on a click
  }

  lost(reason) {
    this.status.textContent = reason || "no connection";
    this.timer = setTimeout(() => this.connect(), LOOK_AGAIN_MS);
  }

  remove() {
    clearTimeout(this.timer);
    this.socket.onclose = null;
    this.socket.close();
    if (this.address) URL.revokeObjectURL(this.address);
    this.figure.remove();
  }
}

async function look() {
  const note = document.getElementById("note");
  try {
    const answer = await fetch(`streams.json${query}`);
    const names = new Set(await answer.json());
    for (const [name, player] of players) {
      if (!names.has(name)) {
        player.remove();
        players.delete(name);
      }
    }
    for (const name of names) {
      if (!players.has(name)) players.set(name, new Player(name));
    }
    note.textContent = names.size ? "" : "No stream goes on.";
  } catch {
    note.textContent = "No connection.";
  }
  setTimeout(look, LOOK_AGAIN_MS);
}

look();
