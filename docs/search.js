// In a search, "-" before a word means "without it". A reader who types --resume looks for that option.
const send = Worker.prototype.postMessage
Worker.prototype.postMessage = function (message, ...rest) {
  if (typeof message?.data === "string") {
    message = { ...message, data: message.data.replace(/(^|\s)-+(?=\w)/g, "$1") }
  }
  return send.call(this, message, ...rest)
}
