// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

/// A failed system call of the test kit.
public struct SystemCallError: Error, Sendable, Hashable, CustomStringConvertible {
  /// The C name of the call, with its file if it has one.
  public let call: String
  /// The error number.
  public let errno: Int32

  /// The failure in a sentence.
  public var description: String {
    let text = unsafe strerror(errno).map { unsafe String(cString: $0) } ?? "unknown"
    return "\(call) failed: \(text) (errno \(errno))"
  }
}
