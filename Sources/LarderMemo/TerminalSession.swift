// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

package import LarderSystem

/// A full-screen display on the terminal of standard output.
///
/// It uses the alternate screen, so that the former contents of the terminal return at the end. The
/// end of the session, a signal that ends the process, and a stop by the terminal restore the
/// terminal; after a stop the display continues.
package final class TerminalSession {
  /// The reason why a wait ended.
  package enum Event: Sendable, Equatable {
    case timeout
    /// A byte of the input.
    case key(UInt8)
    /// The terminal has another size, or the process continues after a stop.
    case redraw
    /// The terminal was closed.
    case closed
  }

  // Alternate screen, hidden cursor, no line wrap; and the reverse.
  private static let begin = "\u{1B}[?1049h\u{1B}[?25l\u{1B}[?7l"
  private static let end = "\u{1B}[0m\u{1B}[?7h\u{1B}[?25h\u{1B}[?1049l"

  private let signals: CInt
  private let mode: TerminalMode?
  private var pending: [UInt8] = []
  private var isOpen = false

  /// Shows an empty screen.
  package init() throws(SystemError) {
    mode = TerminalMode(of: 0)
    signals = try SignalPipe.open([
      SignalPipe.interrupt, SignalPipe.terminate, SignalPipe.hangUp, SignalPipe.quit,
      SignalPipe.windowChanged, SignalPipe.terminalStop, SignalPipe.continued,
    ])
    open()
  }

  deinit { close() }

  private func open() {
    mode?.unbuffer()
    isOpen = true
    write(Self.begin)
  }

  /// Restores the terminal. Further calls have no effect.
  package func close() {
    guard isOpen else { return }
    isOpen = false
    write(Self.end)
    mode?.restore()
  }

  /// The size of the terminal; 80 columns and 24 rows if it has none.
  package var size: (columns: Int, rows: Int) { TerminalMode.size(1) ?? (80, 24) }

  /// Shows lines, from the first row on, in place of the last ones.
  package func show(_ lines: [String]) {
    var text = "\u{1B}[H"
    for (index, line) in lines.prefix(size.rows).enumerated() {
      // Clears the row first: after a full row the cursor is still on its last column.
      text += (index == 0 ? "" : "\r\n") + "\u{1B}[2K" + line + "\u{1B}[0m"
    }
    write(text + (lines.count < size.rows ? "\u{1B}[J" : ""))
  }

  /// Waits for a key, a signal, or the end of a time. Ends the process after a signal that ends it.
  package func wait(milliseconds: Int) throws(SystemError) -> Event {
    if !pending.isEmpty { return .key(pending.removeFirst()) }
    let interests = [RawDescriptor.Interest(signals)] + (mode == nil ? [] : [.init(0)])
    let ready = try RawDescriptor.wait(for: interests, milliseconds: CInt(clamping: milliseconds))
    if ready[0] {
      for arrival in SignalPipe.take() { handle(arrival.signal) }
      return .redraw
    }
    guard ready.count > 1, ready[1] else { return .timeout }
    guard let bytes = try RawDescriptor.read(0, count: 64) else { return .timeout }
    if bytes.isEmpty { return .closed }
    // An escape sequence of a cursor or function key is no sequence of keys.
    if bytes[0] == 0x1B { return .timeout }
    pending = Array(bytes.dropFirst())
    return .key(bytes[0])
  }

  private func handle(_ signal: CInt) {
    switch signal {
    case SignalPipe.windowChanged: break
    case SignalPipe.terminalStop:
      close()
      SignalPipe.suspend()
      open()
    case SignalPipe.continued:
      // The shell may have changed the mode while the process was stopped.
      open()
    default:
      close()
      SignalPipe.die(of: signal)
    }
  }

  private func write(_ text: String) {
    // A terminal that was closed sends SIGHUP, or ends the input.
    try? RawDescriptor.write(Array(text.utf8)[...], to: 1)
  }
}
