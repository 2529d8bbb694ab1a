// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if canImport(Darwin)
  import Darwin
#else
  import Glibc
#endif

/// A system call of the kit itself that failed: which one, and what the system said.
public struct SystemCallError: Error, Sendable, Hashable, CustomStringConvertible {
  /// The call's C name, with the file it was about if there is one.
  public let call: String
  /// The system's error number.
  public let errno: Int32

  /// A sentence for a test's log.
  public var description: String {
    let text = unsafe strerror(errno).map { unsafe String(cString: $0) } ?? "unknown"
    return "\(call) failed: \(text) (errno \(errno))"
  }
}
