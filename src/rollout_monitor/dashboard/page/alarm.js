// The sound of an ERROR. A browser lets a page sound only after somebody touched it; until then the button says so.

import { say } from "/page/dom.js";

const KEPT = "rollout-monitor.sound";
const TONES = [880, 660, 880];
const TONE_S = 0.16;
const PAUSE_MS = 1000; // ten errors at once are one alarm

export class Alarm {
  constructor(button) {
    this.button = button;
    this.muted = localStorage.getItem(KEPT) === "off";
    this.context = null;
    this.rangAt = -PAUSE_MS;
    button.addEventListener("click", () => this.toggle());
    for (const gesture of ["pointerdown", "keydown"]) {
      addEventListener(gesture, () => this.wake(), { capture: true });
    }
    this.show();
  }

  toggle() {
    this.muted = !this.muted;
    localStorage.setItem(KEPT, this.muted ? "off" : "on");
    this.show();
  }

  /** Called within a user's gesture. */
  wake() {
    if (!this.context) {
      this.context = new AudioContext();
      this.context.onstatechange = () => this.show();
    }
    if (this.context.state === "suspended") this.context.resume();
  }

  ring() {
    const now = performance.now();
    if (this.muted || this.context?.state !== "running" || now - this.rangAt < PAUSE_MS) return;
    this.rangAt = now;
    TONES.forEach((hertz, index) => this.tone(hertz, this.context.currentTime + index * TONE_S * 1.25));
  }

  tone(hertz, at) {
    const source = this.context.createOscillator();
    const volume = this.context.createGain();
    source.type = "square";
    source.frequency.value = hertz;
    volume.gain.setValueAtTime(0, at);
    volume.gain.linearRampToValueAtTime(0.15, at + 0.01);
    volume.gain.setValueAtTime(0.15, at + TONE_S - 0.03);
    volume.gain.linearRampToValueAtTime(0, at + TONE_S);
    source.connect(volume).connect(this.context.destination);
    source.start(at);
    source.stop(at + TONE_S);
  }

  show() {
    const asleep = this.context?.state !== "running";
    say(this.button, this.muted ? "Sound: off (M)" : asleep ? "Sound: on after a click" : "Sound: on (M)");
  }
}
