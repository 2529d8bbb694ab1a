// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Musl)
  internal import Musl
#else
  internal import Glibc
#endif

/// The other end of a ``ChildProcess``: how a worker speaks with the test that started it.
///
/// ```swift
/// while let line = ParentProcess.nextLine() {
///   try cache.setValue(line, forKey: "newest")
///   ParentProcess.send("stored \(line)")     // acknowledged: must survive whatever comes
/// }
/// ```
///
/// Do not mix it with `print`, which keeps what it is given until its buffer is full.
public enum ParentProcess {
  /// Writes one line, at once and whole. Lines of several threads do not mix while they are
  /// shorter than a page.
  ///
  /// A parent that has gone is not an error: the next ``nextLine()`` tells.
  public static func send(_ line: String) {
    var rest = Array("\(line)\n".utf8)[...]
    while !rest.isEmpty, let count = try? POSIX.write(rest, to: 1) {
      rest.removeFirst(count)
    }
  }

  /// The next line, or `nil` when the parent has gone or closed the child's input.
  public static func nextLine() -> String? {
    // At the end of the input `readLine` tries again for ever if some earlier call left EINTR here.
    errno = 0
    return readLine(strippingNewline: true)
  }
}
