(() => {
  "use strict";
  const all = (selector) => [...document.querySelectorAll(selector)];
  const samples = JSON.parse(document.getElementById("samples").textContent);
  const times = samples.t || [], until = samples.from + samples.span;
  const chart = document.querySelector(".chart"), legend = document.querySelector(".legend");
  const video = document.querySelector("video"), still = document.querySelector(".still");
  let now = null;

  // --- one playhead for everything that has a time axis
  const nearest = (list, t) => {
    let low = 0, high = list.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (list[middle] < t) low = middle + 1; else high = middle;
    }
    return low > 0 && t - list[low - 1] < list[low] - t ? low - 1 : low;
  };
  const text = (value, digits, plus) => {
    if (value === null || value === undefined) return "–";
    const size = Math.abs(value).toFixed(digits);
    return (value < 0 && Number(size) ? "−" : plus ? "+" : "") + size;
  };
  const read = (t) => {
    const at = times.length ? nearest(times, t) : -1;
    for (const place of all("[data-column]")) {
      const { column, until: upper, unit = "" } = place.dataset;
      if (column === "t") place.textContent = text(t, 1, true) + unit;
      else {
        const value = (samples[column] || [])[at], top = (samples[upper] || [])[at];
        place.textContent = text(value, 2) + (top === null || top === undefined ? "" : "–" + text(top, 2));
        if (value !== null && value !== undefined) place.textContent += unit;
      }
      place.classList.add("at");
    }
    const joints = samples.joints;
    if (!joints.t) return;
    const column = nearest(joints.t, t);
    for (const place of all("[data-joint]")) {
      const value = joints[place.dataset.what][place.dataset.joint][column];
      place.textContent = text(value, Math.abs(value) < 10 ? 2 : 0) + place.dataset.unit;
    }
  };
  const frame = (t) => {
    if (!still || still.hidden) return;
    const shown = samples.frames.filter((one) => one[0] <= t).pop() || samples.frames[0];
    if (!shown) return;
    const image = document.getElementById(shown[1]), svg = still.querySelector("svg");
    svg.setAttribute("viewBox", `0 0 ${image.getAttribute("width")} ${image.getAttribute("height")}`);
    svg.querySelector("use").setAttribute("href", "#" + shown[1]);
    document.querySelector(".stage .frame").textContent = `${image.dataset.caption}, ${text(shown[0], 1, true)} s`;
  };
  const show = (t) => {
    now = Math.max(samples.from, Math.min(until, t));
    document.body.style.setProperty("--at", ((now - samples.from) / samples.span) * 100 + "%");
    for (const playhead of all(".playhead")) playhead.hidden = false;
    read(now);
    frame(now);
  };

  // --- the film, unpacked from the page
  let wanted = null, ours = false;
  const playing = () => video && !video.hidden && !video.paused && !video.ended;
  const turn = () => {
    if (wanted === null || video.seeking) return;
    ours = true;
    video.currentTime = wanted;
    wanted = null;
  };
  const seek = (t) => {
    show(t);
    if (!video || video.hidden) return;
    const last = Number.isFinite(video.duration) ? video.duration : 0;
    wanted = Math.max(0, Math.min(last, now - samples.film + 0.001));
    turn();
  };
  const showFilm = () => { if (!video.seeking) show(video.currentTime + samples.film); };
  const follow = () => {
    if (!playing()) return;
    showFilm();
    requestAnimationFrame(follow);
  };
  const toggle = () => { if (playing()) video.pause(); else video.play(); };
  const unpack = () => {
    const packed = document.getElementById("film");
    const bytes = Uint8Array.from(atob(packed.textContent.trim()), (letter) => letter.charCodeAt(0));
    const controls = document.querySelector(".controls"), play = controls.querySelector(".play");
    const swap = (film) => {
      video.hidden = controls.hidden = !film;
      if (still) still.hidden = film;
      for (const name of all(".stage .names")) name.hidden = name.classList.contains("instead") === film;
    };
    video.addEventListener("error", () => swap(false));
    video.addEventListener("loadedmetadata", () => { if (now !== null) seek(now); });
    video.addEventListener("play", () => {
      play.textContent = "Pause";
      legend?.setAttribute("aria-live", "off");
      follow();
    });
    video.addEventListener("pause", () => {
      play.textContent = "Play";
      showFilm();
      legend?.setAttribute("aria-live", "polite");
    });
    for (const part of [play, video]) part.addEventListener("click", toggle);
    controls.querySelector(".full").addEventListener("click", () => video.requestFullscreen());
    controls.querySelector("select").addEventListener("change", (event) => {
      video.playbackRate = Number(event.target.value);
    });
    video.addEventListener("seeked", () => {
      if (!ours) show(video.currentTime + samples.film);
      ours = false;
      turn();
    });
    video.src = URL.createObjectURL(new Blob([bytes], { type: "video/mp4" }));
    packed.remove();
    swap(true);
  };
  if (video) unpack();

  // --- pointing, keys, jumps
  for (const line of all("[data-timeline]")) {
    const area = line.classList.contains("over") ? chart : line;
    const point = (event) => {
      const box = line.getBoundingClientRect();
      seek(samples.from + ((event.clientX - box.left) / box.width) * samples.span);
    };
    area.addEventListener("pointermove", (event) => { if (!playing()) point(event); });
    area.addEventListener("click", (event) => { if (!event.target.closest("a")) point(event); });
  }
  const step = (by) => {
    if (!times.length) return (now ?? samples.from) + by * 0.1;
    if (now === null) return times[by > 0 ? 0 : times.length - 1];
    return times[Math.max(0, Math.min(times.length - 1, nearest(times, now) + by))];
  };
  chart?.addEventListener("keydown", (event) => {
    if (event.target !== chart) return;
    const by = event.shiftKey ? 10 : 1;
    const moves = { ArrowRight: () => step(by), ArrowLeft: () => step(-by), Home: () => samples.from, End: () => until };
    if (event.key in moves) seek(moves[event.key]());
    else if (event.key === " " && video && !video.hidden) toggle();
    else return;
    event.preventDefault();
  });
  for (const button of all(".jump")) button.addEventListener("click", () => seek(Number(button.dataset.t)));
  frame(samples.from);

  // --- pictures in large, paper
  const viewer = document.querySelector(".viewer");
  for (const button of all(".enlarge")) {
    button.addEventListener("click", () => {
      viewer.querySelector(".canvas").replaceChildren(button.querySelector("svg").cloneNode(true));
      viewer.querySelector("p").textContent = button.dataset.alt;
      viewer.showModal();
    });
  }
  viewer.addEventListener("click", (event) => { if (event.target === viewer) viewer.close(); });
  addEventListener("beforeprint", () => { for (const part of all("details")) part.open = true; });
})();
