// Search without a server: a page from a directory (file:) may not start a worker, so the worker's script runs in a
// hidden frame instead. Its messages go the same ways; pages from a server keep the browser's own workers.
if (location.protocol === "file:") {
  class FrameWorker extends EventTarget {
    constructor(url) {
      super()
      this.waiting = []
      const frame = document.createElement("iframe")
      frame.hidden = true
      frame.srcdoc = `<script src="${new URL(url, document.baseURI)}"><\/script>`
      frame.addEventListener("load", () => {
        const inside = frame.contentWindow
        inside.postMessage = data => {
          const event = new MessageEvent("message", { data })
          this.dispatchEvent(event)
          if (this.onmessage) this.onmessage(event)
        }
        this.inside = inside
        this.waiting.splice(0).forEach(data => this.postMessage(data))
      })
      document.documentElement.append(frame)
      this.frame = frame
    }
    postMessage(data) {
      if (this.inside) this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data }))
      else this.waiting.push(data)
    }
    terminate() {
      this.frame.remove()
    }
  }
  window.IFrameWorker = FrameWorker
  window.Worker = FrameWorker
}
