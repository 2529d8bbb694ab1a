// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import CLarderLMDB

#if canImport(Glibc)
internal import Glibc
#elseif canImport(Musl)
internal import Musl
#else
internal import Darwin
#endif

/// The input mode of a terminal.
package struct TerminalMode: Sendable {
  private let descriptor: CInt
  private let saved: termios

  /// Reads the mode of a terminal; `nil` if the descriptor is not one.
  package init?(of descriptor: CInt) {
    var mode = termios()
    guard unsafe tcgetattr(descriptor, &mode) == 0 else { return nil }
    self.descriptor = descriptor
    saved = mode
  }

  /// Delivers each key at once, without showing it. Keys that send signals still do.
  package func unbuffer() {
    var mode = saved
    mode.c_lflag &= ~tcflag_t(ICANON | ECHO)
    unsafe withUnsafeMutableBytes(of: &mode.c_cc) { keys in
      unsafe keys[Int(VMIN)] = 1
      unsafe keys[Int(VTIME)] = 0
    }
    unsafe tcsetattr(descriptor, TCSANOW, &mode)
  }

  /// Restores the mode that was read. Keys that were pressed and not read are dropped: the shell must
  /// not read them as a command.
  package func restore() {
    var mode = saved
    unsafe tcsetattr(descriptor, TCSAFLUSH, &mode)
  }

  /// Returns the columns and rows of a terminal, or `nil` if it is not one or has no size.
  package static func size(_ descriptor: CInt) -> (columns: Int, rows: Int)? {
    var size = winsize()
    guard unsafe ioctl(descriptor, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0, size.ws_row > 0
    else { return nil }
    return (Int(size.ws_col), Int(size.ws_row))
  }
}
