// Search without a server: browsers refuse to start a worker from a local file, so one is run in a hidden frame.
// The file's name keeps mkdocs-material from loading a script for this from another host.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.documentElement.append(frame);
      const inside = frame.contentWindow;
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.started = new Promise((resolve) => {
        const script = frame.contentDocument.createElement("script");
        script.src = url;
        script.onload = resolve;
        frame.contentDocument.head.append(script);
      });
      this.inside = inside;
    }

    postMessage(data) {
      this.started.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
}
