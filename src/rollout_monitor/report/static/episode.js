(() => {
  "use strict";
  const samples = JSON.parse(document.getElementById("samples").textContent);
  const chart = document.querySelector(".chart");
  const playhead = document.querySelector(".playhead");
  let at = -1;

  const show = (index) => {
    at = Math.max(0, Math.min(samples.x.length - 1, index));
    playhead.hidden = false;
    playhead.style.left = samples.x[at] + "%";
    for (const place of document.querySelectorAll("[data-column]")) {
      const read = (column) => (samples[column] ? samples[column][at] : null);
      const value = read(place.dataset.column), until = read(place.dataset.until);
      const digits = place.dataset.column === "t" ? 1 : 2;
      let text = value === null ? "–" : Math.abs(value).toFixed(digits);
      if (value !== null && value < 0) text = "−" + text;
      else if (value !== null && place.dataset.sign) text = place.dataset.sign + text;
      if (until !== null && until !== undefined) text += "–" + until.toFixed(digits);
      place.textContent = value === null ? text : text + (place.dataset.unit || "");
      place.classList.add("at");
    }
  };
  const nearest = (percent) => {
    let low = 0, high = samples.x.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (samples.x[middle] < percent) low = middle + 1; else high = middle;
    }
    return low > 0 && percent - samples.x[low - 1] < samples.x[low] - percent ? low - 1 : low;
  };
  if (chart && samples.x && samples.x.length) {
    const over = chart.querySelector(".over");
    chart.addEventListener("pointermove", (event) => {
      const box = over.getBoundingClientRect();
      show(nearest(((event.clientX - box.left) / box.width) * 100));
    });
    chart.addEventListener("keydown", (event) => {
      const step = event.shiftKey ? 10 : 1;
      const target = { ArrowRight: at + step, ArrowLeft: at - step, Home: 0, End: samples.x.length - 1 }[event.key];
      if (target === undefined || event.target !== chart) return;
      event.preventDefault();
      show(target);
    });
  }

  const viewer = document.querySelector(".viewer");
  for (const button of document.querySelectorAll(".enlarge")) {
    button.addEventListener("click", () => {
      const picture = button.querySelector("svg").cloneNode(true);
      viewer.querySelector(".canvas").replaceChildren(picture);
      viewer.querySelector("p").textContent = button.dataset.alt;
      viewer.showModal();
    });
  }
  viewer.addEventListener("click", (event) => { if (event.target === viewer) viewer.close(); });
  addEventListener("beforeprint", () => { for (const part of document.querySelectorAll("details")) part.open = true; });
})();
