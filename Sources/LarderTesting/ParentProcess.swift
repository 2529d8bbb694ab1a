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

/// The connection of a worker to the test that started it with ``ChildProcess``.
///
/// ```swift
/// while let line = ParentProcess.nextLine() {
///   try cache.setValue(line, forKey: "newest")
///   ParentProcess.send("stored \(line)")     // acknowledged: must survive a kill
/// }
/// ```
///
/// Do not mix it with `print`, which writes only when its buffer is full.
public enum ParentProcess {
  /// Writes one line at once. Lines of several threads that are shorter than a page do not mix.
  ///
  /// A line break in `line` becomes a space, so that the text of an error is one answer.
  ///
  /// The call does not fail if the parent has exited; the next ``nextLine()`` returns `nil` then.
  public static func send(_ line: String) {
    var rest = line.utf8.map { $0 == UInt8(ascii: "\n") ? UInt8(ascii: " ") : $0 }[...]
    rest.append(UInt8(ascii: "\n"))
    while !rest.isEmpty, let count = try? POSIX.write(rest, to: 1) {
      rest.removeFirst(count)
    }
  }

  /// Returns the next line, or `nil` if the parent has exited or closed the child's input.
  public static func nextLine() -> String? {
    // At the end of the input, `readLine` retries forever if an earlier call left EINTR in errno.
    errno = 0
    return readLine(strippingNewline: true)
  }
}
